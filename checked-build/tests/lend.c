// SPDX-License-Identifier: GPL-2.0-only
/* A module that is lent pages of files: lend.rs tells what each function is to do. */
#include <tane/module.h>

#define AT_FDCWD (-100)
#define O_RDWR 2

static char path[64];
static const unsigned char *view;

long where(void)
{
	return (long)path;
}

long opens(long flags)
{
	return openat(AT_FDCWD, path, flags, 0);
}

long lends(long fd, long bytes, long at)
{
	return tane_lend(fd, (const void **)&view, bytes, at);
}

long lends_to(long fd, long to)
{
	return tane_lend(fd, (const void **)to, 1, 0);
}

long view_at(void)
{
	return (long)view;
}

/* The view that was lent last. */
long byte(long at)
{
	return view[at];
}

long sum(long bytes)
{
	long sum = 0;

	for (long i = 0; i < bytes; i++)
		sum = sum * 31 + view[i];
	return sum;
}

long writes_to(long at)
{
	((unsigned char *)view)[at] = 1;
	return 0;
}

long read_into(long fd)
{
	return pread(fd, (void *)view, 16, 0);
}

long write_from(long fd, long from, long bytes)
{
	return pwrite(fd, view + from, bytes, 0);
}

long tells(long bytes)
{
	return tane_output(1, view, bytes);
}

long releases(long at)
{
	return tane_release((void *)at);
}

/* As many as it gets. */
long hoards(long fd)
{
	long n = 0, got;

	while ((got = lends(fd, 1, 0)) == 1)
		n++;
	return got < -1 ? n : -1;
}

long goes_on_for_ever(void)
{
	for (;;)
		*(volatile const char *)view;
}

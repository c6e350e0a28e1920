// SPDX-License-Identifier: GPL-2.0-only
/*
 * A checked module that the tests of C, Python and Go run: sums, faults, memory, imports,
 * and files of a kernel.
 */
#include <tane/module.h>

#define AT_FDCWD (-100)

long twice(long of);
void *tane_heap(void);

static const char text[] = "from the module";
static volatile long word;

long add(long a, long b)
{
	return a + b;
}

long divide(long a, long by)
{
	return a / by;
}

long deep(long n)
{
	volatile char room[256];

	room[n & 255] = n;
	return deep(n + 1) + room[0];
}

void store(long at)
{
	*(volatile char *)at = 1;
}

void unreachable(void)
{
	__builtin_trap();
}

long by_pointer(long to)
{
	return ((long (*)(void))to)();
}

void for_ever(void)
{
	for (;;)
		word++;
}

void leaves(long code)
{
	tane_exit(code);
}

long words(void)
{
	return (long)&word;
}

const char *constant(void)
{
	return text;
}

long heap(void)
{
	return (long)tane_heap();
}

/* The function that it was given, and what becomes of it. */
long quadruple(long of)
{
	return twice(twice(of));
}

long length(const char *of)
{
	long n = 0;

	while (of[n])
		n++;
	return n;
}

/* How many bytes a file has, by reading it. */
long count(const char *path)
{
	static char buffer[4096];
	long fd = openat(AT_FDCWD, path, 0, 0), n, sum = 0;

	if (fd < 0)
		return fd;
	while ((n = read(fd, buffer, sizeof(buffer))) > 0)
		sum += n;
	close(fd);
	return n < 0 ? n : sum;
}

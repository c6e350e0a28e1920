// SPDX-License-Identifier: GPL-2.0-only
/* A module that calls a kernel: linux.rs tells what each function is to do. */
#include <tane/module.h>

#define AT_FDCWD (-100)
#define O_RDWR 2
#define O_CREAT 0100

static char buffer[4096];

long parent(void)
{
	return getppid();
}

long parents(long n)
{
	long sum = 0;

	while (n--)
		sum += getppid();
	return sum;
}

/* Writes a file and reads it back: how many bytes came back right. */
long file(void)
{
	long fd = openat(AT_FDCWD, "made", O_RDWR | O_CREAT, 0600), n, right = 0;

	if (fd < 0)
		return fd;
	for (int i = 0; i < 4096; i++)
		buffer[i] = i * 7;
	n = pwrite(fd, buffer, 4096, 0);
	for (int i = 0; i < 4096; i++)
		buffer[i] = 0;
	if (n == 4096)
		n = pread(fd, buffer, 4096, 0);
	for (int i = 0; i < 4096; i++)
		right += buffer[i] == (char)(i * 7);
	close(fd);
	return n < 0 ? n : right;
}

long open_path(void)
{
	return openat(AT_FDCWD, buffer, 0, 0);
}

long where(void)
{
	return (long)buffer;
}

/* Any pointer at all. */
long random_at(long at, long bytes)
{
	return getrandom((void *)at, bytes, 0);
}

long time_at(long at)
{
	return clock_gettime(1, (void *)at);
}

long read_at(long fd, long at, long bytes)
{
	return read(fd, (void *)at, bytes);
}

long write_at(long fd, long at, long bytes)
{
	return write(fd, (void *)at, bytes);
}

long for_ever(void)
{
	for (;;)
		*(volatile char *)buffer = 1;
}

long calls_for_ever(void)
{
	for (;;)
		getppid();
}

/* A pipe's reader that nobody writes to. */
long waits(long fd)
{
	return read(fd, buffer, 1);
}

long waits_for_ever(void)
{
	for (;;)
		openat(AT_FDCWD, "fifo", 0, 0);
}

long divides(long by)
{
	return 100 / by;
}

/* All of them, so that each is known to the loader. */
long all(void)
{
	return (getppid() | clock_gettime(-1, buffer) | getrandom(buffer, 1, -1) |
		sched_yield() | read(-1, buffer, 1) | write(-1, buffer, 1) |
		pread(-1, buffer, 1, 0) | pwrite(-1, buffer, 1, 0) |
		openat(-1, "x", 0, 0) | close(-1) | lseek(-1, 0, 0) | fstat(-1, buffer) |
		fstatat(-1, "x", buffer, 0) | getdents64(-1, buffer, 1) |
		readlinkat(-1, "x", buffer, 1) | faccessat(-1, "x", 0) |
		mkdirat(-1, "x", 0) | unlinkat(-1, "x", 0) | renameat(-1, "x", -1, "y") |
		linkat(-1, "x", -1, "y", 0) | symlinkat("x", -1, "y") | fchmod(-1, 0) |
		ftruncate(-1, 0) | fallocate(-1, 0, 0, 1) | fsync(-1) | fdatasync(-1)) < 0;
}

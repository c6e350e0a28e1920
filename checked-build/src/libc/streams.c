// SPDX-License-Identifier: GPL-2.0-only
/*
 * Descriptors: 0, 1 and 2 are the loader's streams, what is above them the kernel's files and
 * sockets. Those are only there in a program that opens some, so that another imports no call of
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include "calls.h"

#define FIRST_FILE 3

#pragma weak __tane_file_read
#pragma weak __tane_file_write
#pragma weak __tane_file_lseek
#pragma weak __tane_file_close
#pragma weak __tane_file_fstat
#pragma weak __tane_socket_read
#pragma weak __tane_socket_write
#pragma weak __tane_socket_close
#pragma weak __tane_socket_fstat
#pragma weak __tane_socket_fcntl

long __tane_read(int fd, void *to, unsigned long bytes)
{
	if (fd == 0)
		return import_tane_input(to, bytes);
	if (fd < FIRST_FILE)
		return -EBADF;
	if (__tane_file_read)
		return __tane_file_read(fd, to, bytes);
	return __tane_socket_read ? __tane_socket_read(fd, to, bytes) : -EBADF;
}

long __tane_write(int fd, const void *from, unsigned long bytes)
{
	if (fd == 1 || fd == 2)
		return import_tane_output(fd, from, bytes);
	if (fd < FIRST_FILE)
		return -EBADF;
	if (__tane_file_write)
		return __tane_file_write(fd, from, bytes);
	return __tane_socket_write ? __tane_socket_write(fd, from, bytes) : -EBADF;
}

/* One after the other: what a stream has given is not kept back for more of it. */
long __tane_readv(int fd, const struct iovec *to, int count)
{
	long all = 0, n = 0;

	for (int i = 0; i < count; i++) {
		if (!to[i].iov_len)
			continue;
		n = __tane_read(fd, to[i].iov_base, to[i].iov_len);
		if (n < 0)
			break;
		all += n;
		if ((unsigned long)n < to[i].iov_len || fd < FIRST_FILE)
			break;
	}
	return all ? all : n;
}

long __tane_writev(int fd, const struct iovec *from, int count)
{
	long all = 0, n = 0;

	for (int i = 0; i < count; i++) {
		if (!from[i].iov_len)
			continue;
		n = __tane_write(fd, from[i].iov_base, from[i].iov_len);
		if (n < 0)
			break;
		all += n;
		if ((unsigned long)n < from[i].iov_len)
			break;
	}
	return all ? all : n;
}

long __tane_lseek(int fd, long offset, int whence)
{
	if (fd >= 0 && fd < FIRST_FILE)
		return -ESPIPE;
	if (__tane_file_lseek)
		return __tane_file_lseek(fd, offset, whence);
	return __tane_socket_read ? -ESPIPE : -EBADF;
}

/* A stream stays open for whoever has started it. */
long __tane_close(int fd)
{
	if (fd >= 0 && fd < FIRST_FILE)
		return 0;
	if (__tane_file_close)
		return __tane_file_close(fd);
	return __tane_socket_close ? __tane_socket_close(fd) : -EBADF;
}

long __tane_fstat(int fd, void *stat)
{
	if (fd < FIRST_FILE)
		return -EBADF;
	if (__tane_file_fstat)
		return __tane_file_fstat(fd, stat);
	return __tane_socket_fstat ? __tane_socket_fstat(fd, stat) : -EBADF;
}

/*
 * Nothing is executed and nobody else has the files: descriptors need no mark for that, and
 * a lock, which the holder's own process never waits for, is always to be had.
 */
long __tane_fcntl(int fd, int command, long argument)
{
	switch (command) {
	case F_GETFD:
	case F_SETFD:
	case F_SETLK:
	case F_SETLKW:
		return 0;
	case F_GETLK:
		((struct flock *)argument)->l_type = F_UNLCK;
		return 0;
	case F_GETFL:
	case F_SETFL:
		if (fd >= FIRST_FILE && __tane_socket_fcntl)
			return __tane_socket_fcntl(fd, command, argument);
	}
	return -ENOSYS;
}

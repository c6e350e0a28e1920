// SPDX-License-Identifier: GPL-2.0-only
/* What goes with a socket: together, since what can be made can be read, written and closed. */
#include <fcntl.h>
#include <sys/stat.h>
#include <string.h>
#include "calls.h"

long __tane_socket_read(int fd, void *to, unsigned long bytes)
{
	return import_read(fd, to, bytes);
}

long __tane_socket_write(int fd, const void *from, unsigned long bytes)
{
	return import_write(fd, from, bytes);
}

long __tane_socket_close(int fd)
{
	return import_close(fd);
}

/* Where there are no files: an import of fstat() would be one of files. */
long __tane_socket_fstat(int fd, void *stat)
{
	/* Says whether it is there, and takes nothing. */
	long failed = import_read(fd, stat, 0);
	struct stat *it = stat;

	if (failed)
		return failed;
	memset(it, 0, sizeof(*it));
	it->st_mode = S_IFSOCK | 0777;
	it->st_nlink = 1;
	return 0;
}

long __tane_socket_fcntl(int fd, int command, long flags)
{
	return import_fcntl(fd, command, flags);
}

long __tane_socket(int domain, int type, int protocol)
{
	return import_socket(domain, type, protocol);
}

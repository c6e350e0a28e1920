/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls that end after their time and well, and one that sleeps. */

long openat(int fd, const char *path, int flags, int mode);
long read(int fd, void *buffer, unsigned long bytes);
long host_waits(void);

static char buffer[8];

long waits_in_the_host(void)
{
	return host_waits();
}

long opens(void)
{
	return openat(-100, "fifo", 0, 0);
}

long reads(long fd)
{
	return read(fd, buffer, 1);
}

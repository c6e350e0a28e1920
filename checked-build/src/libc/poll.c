// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waiting for sockets. The standard streams are not the kernel's: like files they are ready
 * always, and a read of one waits.
 */
#include <limits.h>
#include <poll.h>
#include "calls.h"

#define STREAMS 3

static int ready(const struct pollfd *it)
{
	if (it->fd < 0 || it->fd >= STREAMS)
		return 0;
	return it->events & (it->fd ? POLLOUT | POLLWRNORM : POLLIN | POLLRDNORM);
}

/* The kernel leaves out what is negative. */
static void hide(struct pollfd *fds, unsigned long count)
{
	for (unsigned long i = 0; i < count; i++)
		if (fds[i].fd >= 0 && fds[i].fd < STREAMS)
			fds[i].fd += INT_MIN;
}

/* The streams, and how many of them are ready. */
static long show(struct pollfd *fds, unsigned long count)
{
	long found = 0;

	for (unsigned long i = 0; i < count; i++) {
		if (fds[i].fd >= INT_MIN + STREAMS)
			continue;
		fds[i].fd -= INT_MIN;
		fds[i].revents = ready(&fds[i]);
		found += fds[i].revents != 0;
	}
	return found;
}

long __tane_poll(void *all, unsigned long count, int milliseconds)
{
	struct pollfd *fds = all;
	long others, streams;

	for (unsigned long i = 0; i < count; i++)
		if (ready(&fds[i]))
			milliseconds = 0;
	hide(fds, count);
	others = import_poll(fds, count, milliseconds);
	streams = show(fds, count);
	return others < 0 ? others : others + streams;
}

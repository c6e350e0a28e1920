// SPDX-License-Identifier: GPL-2.0-only
/* A file in pieces of 64 KiB, which are read or lent; of each page a word is looked at, or all. */
#include <tane/module.h>

#define PIECE 65536L
#define PAGE 4096
#define FILE_NAME "file"

static unsigned long buffer[PIECE / 8];

static unsigned long look(const unsigned long *at, long step)
{
	unsigned long sum = 0;

	for (long i = 0; i < PIECE / 8; i += step)
		sum += at[i];
	return sum;
}

/* The next of so many pieces: all of them come, and not in order. */
static long next(long piece, long pieces)
{
	return (piece * 5 + 3) & (pieces - 1);
}

long opens(void)
{
	return openat(-100, FILE_NAME, 0, 0);
}

long reads(long fd, long pieces, long looks, long step)
{
	unsigned long sum = 0;

	for (long i = 0, piece = 0; i < looks; i++, piece = next(piece, pieces)) {
		if (pread(fd, buffer, PIECE, piece * PIECE) != PIECE)
			return -1;
		sum += look(buffer, step);
	}
	return sum >> 1;
}

long lends(long fd, long pieces, long looks, long step)
{
	const unsigned long *view;
	unsigned long sum = 0;

	if (tane_lend(fd, (const void **)&view, pieces * PIECE, 0) != pieces * PIECE)
		return -1;
	for (long i = 0, piece = 0; i < looks; i++, piece = next(piece, pieces))
		sum += look(view + piece * PIECE / 8, step);
	return tane_release(view) ? -1 : (long)(sum >> 1);
}

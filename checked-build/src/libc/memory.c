// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory for malloc(): whole pages of the heap, of which a map has one bit each. The lowest
 * that are free are taken; those above the highest that ever were are zeroes still.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include "calls.h"

#define PAGE 4096ul
/* As many as a window has. */
#define MOST (1ul << 20)
#define WORD 64

static unsigned long taken[MOST / WORD];
static unsigned long first, end;
/* Below the one nothing is free, from the other on nothing was ever taken. */
static unsigned long lowest, used;

static int is_taken(unsigned long page)
{
	return taken[page / WORD] >> page % WORD & 1;
}

static void mark(unsigned long page, unsigned long pages, int as)
{
	for (; pages--; page++) {
		unsigned long bit = 1ul << page % WORD;

		taken[page / WORD] = as ? taken[page / WORD] | bit : taken[page / WORD] & ~bit;
	}
}

/* How many from this one on are free, up to so many. */
static unsigned long room(unsigned long page, unsigned long wanted)
{
	unsigned long n = 0;

	while (n < wanted && page + n < end && !is_taken(page + n))
		n++;
	return n;
}

static unsigned long find(unsigned long pages)
{
	unsigned long page = lowest;

	while (page < end) {
		unsigned long n;

		if (page % WORD == 0 && taken[page / WORD] == ~0ul) {
			page += WORD;
			continue;
		}
		n = room(page, pages);
		if (n == pages)
			return page;
		page += n + 1;
	}
	return 0;
}

static unsigned long pages_of(unsigned long bytes)
{
	return bytes / PAGE + (bytes % PAGE != 0);
}

long __tane_mmap(unsigned long bytes, int flags, int fd)
{
	unsigned long pages = pages_of(bytes), page;

	if (!(flags & MAP_ANON))
		return -ENODEV;
	if (flags & MAP_FIXED)
		return -EINVAL;
	if (!end) {
		first = pages_of(import_tane_heap());
		end = import_tane_heap_end() / PAGE;
		lowest = first;
		used = first;
	}
	page = find(pages);
	if (!page || !pages)
		return -ENOMEM;
	mark(page, pages, 1);
	if (page == lowest)
		lowest = page + pages;
	if (page < used)
		memset((void *)(page * PAGE), 0, (page + pages < used ? pages : used - page) * PAGE);
	if (page + pages > used)
		used = page + pages;
	return page * PAGE;
}

long __tane_munmap(unsigned long at, unsigned long bytes)
{
	unsigned long page = at / PAGE, pages = pages_of(bytes);

	if (at % PAGE || page < first || page + pages > end)
		return -EINVAL;
	mark(page, pages, 0);
	if (page < lowest)
		lowest = page;
	return 0;
}

/* In place, or not at all: realloc() copies then. */
long __tane_mremap(unsigned long at, unsigned long bytes, unsigned long wanted)
{
	unsigned long page = at / PAGE, now = pages_of(bytes), then = pages_of(wanted), fresh;

	if (at % PAGE || page < first || page + now > end || !then)
		return -EINVAL;
	if (then <= now) {
		__tane_munmap(at + then * PAGE, (now - then) * PAGE);
		return at;
	}
	fresh = page + now;
	if (room(fresh, then - now) < then - now)
		return -ENOMEM;
	mark(fresh, then - now, 1);
	if (fresh < used)
		memset((void *)(fresh * PAGE), 0,
		       (page + then < used ? then - now : used - fresh) * PAGE);
	if (page + then > used)
		used = page + then;
	return at;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where probes are: at functions' first bytes. If there are fewer functions
 * than probes wanted, they are inside functions too, evenly.
 */
#include <linux/kallsyms.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <asm/sections.h>

#include "probes.h"

struct functions {
	unsigned long *at;
	unsigned int count, room;
};

static int note(void *data, const char *name, unsigned long addr)
{
	struct functions *f = data;

	if (addr < (unsigned long)_stext || addr >= (unsigned long)_etext)
		return 0;
	if (f->at && f->count < f->room)
		f->at[f->count] = addr;
	f->count++;
	return 0;
}

static int ascending(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a;
	unsigned long y = *(const unsigned long *)b;

	return x < y ? -1 : x > y;
}

int all_functions(unsigned long **starts, unsigned int *count)
{
	struct functions f = {};
	unsigned int i, kept = 0;

	kallsyms_on_each_symbol(note, &f);
	f.room = f.count;
	f.at = kvmalloc_array(f.room + 1, sizeof(*f.at), GFP_KERNEL);
	if (!f.at)
		return -ENOMEM;
	f.count = 0;
	kallsyms_on_each_symbol(note, &f);
	sort(f.at, f.count, sizeof(*f.at), ascending, NULL);
	/* Some have several names. */
	for (i = 0; i < f.count; i++)
		if (!kept || f.at[i] != f.at[kept - 1])
			f.at[kept++] = f.at[i];
	f.at[kept] = (unsigned long)_etext;
	*starts = f.at;
	*count = kept;
	return 0;
}

int addresses(unsigned long *to, unsigned int count)
{
	unsigned int i, n, wanted, step, got = 0;
	unsigned long *starts;
	int error = all_functions(&starts, &n);

	if (error)
		return error;
	for (i = 0; i < n && got < count; i++) {
		unsigned long at = starts[i], end = starts[i + 1];

		/* What is left, over the functions that are left. */
		wanted = DIV_ROUND_UP(count - got, n - i);
		step = max((end - at) / wanted, 1UL);
		for (; wanted && at < end && got < count; at += step, wanted--)
			to[got++] = at;
	}
	kvfree(starts);
	return got == count ? 0 : -E2BIG;
}

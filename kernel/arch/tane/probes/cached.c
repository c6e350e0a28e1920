// SPDX-License-Identifier: GPL-2.0-only
/*
 * The XArray behind a cache of each CPU, four probes in each of 64 sets.
 *
 * A set is good for one generation of the array: whoever takes a probe out
 * begins the next before the grace period that the probe is freed after. A
 * set is filled with what was found, of the generation from before the look,
 * so that what was taken out meanwhile is not believed.
 */
#include <linux/hash.h>
#include <linux/percpu.h>
#include <linux/preempt.h>

#include "probes.h"
#include "xarray.h"

#define SET_BITS	6
#define WAYS		4

struct set {
	unsigned long generation;
	struct probe *ways[WAYS];
	unsigned long next;
};

struct cache {
	struct set sets[1 << SET_BITS];
};

static DEFINE_PER_CPU(struct cache, caches);
/* From 1: a set that was never used is of no generation. */
static unsigned long generation = 1;

static int forget(void)
{
	WRITE_ONCE(generation, generation + 1);
	return 0;
}

static void remove_cached(struct probe *p)
{
	remove_offset(p);
	/* After the array: who sees the new generation finds nothing there. */
	smp_store_release(&generation, generation + 1);
}

static struct probe *find_cached(unsigned long addr)
{
	struct cache *cache = get_cpu_ptr(&caches);
	struct set *set = &cache->sets[hash_long(addr, SET_BITS)];
	unsigned long now;
	struct probe *p;
	int i;

	/* Before the array is looked into: what goes meanwhile is not kept. */
	now = smp_load_acquire(&generation);
	if (set->generation == now) {
		for (i = 0; i < WAYS; i++) {
			p = READ_ONCE(set->ways[i]);
			if (p && p->addr == addr)
				goto out;
		}
	}
	p = xa_load(&probes_xa, text_offset(addr));
	if (!p)
		goto out;
	if (set->generation != now) {
		for (i = 0; i < WAYS; i++)
			set->ways[i] = NULL;
		set->generation = now;
	}
	set->ways[set->next++ % WAYS] = p;
out:
	put_cpu_ptr(&caches);
	return p;
}

static size_t bytes_cached(unsigned int count)
{
	return xarray_bytes(&probes_xa) + sizeof(struct cache) * num_possible_cpus();
}

const struct structure cached = {
	.name = "xarray-cache", .init = forget, .add = add_offset,
	.remove = remove_cached, .find = find_cached,
	.bytes = bytes_cached, .destroy = destroy_offset,
};

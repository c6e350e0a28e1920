// SPDX-License-Identifier: GPL-2.0-only
/*
 * A hash table that grows with what is in it.
 */
/* It does not include what it needs of this. */
#include <linux/sched.h>
#include <linux/rhashtable.h>

#include "probes.h"

static struct rhashtable table;

static const struct rhashtable_params params = {
	.key_len		= sizeof(unsigned long),
	.key_offset		= offsetof(struct probe, addr),
	.head_offset		= offsetof(struct probe, rhash),
	.automatic_shrinking	= true,
};

static int init(void)
{
	return rhashtable_init(&table, &params);
}

static int add(struct probe *p)
{
	return rhashtable_insert_fast(&table, &p->rhash, params);
}

static void take_out(struct probe *p)
{
	rhashtable_remove_fast(&table, &p->rhash, params);
}

static struct probe *find(unsigned long addr)
{
	return rhashtable_lookup_fast(&table, &addr, params);
}

static size_t bytes(unsigned int count)
{
	const struct bucket_table *buckets;
	size_t used;

	rcu_read_lock();
	buckets = rcu_dereference(table.tbl);
	used = struct_size(buckets, buckets, buckets->size);
	rcu_read_unlock();
	return used + sizeof(struct rhash_head) * count;
}

static void destroy(void)
{
	rhashtable_destroy(&table);
}

const struct structure rhash = {
	.name = "rhashtable", .init = init, .add = add, .remove = take_out,
	.find = find, .bytes = bytes, .destroy = destroy,
};

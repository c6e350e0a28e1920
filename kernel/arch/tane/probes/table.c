// SPDX-License-Identifier: GPL-2.0-only
/*
 * What kernel/kprobes.c has: a table of lists, of 64 slots there; and one of 512.
 */
#include <linux/hash.h>
#include <linux/rculist.h>
#include <linux/string.h>

#include "probes.h"

static struct hlist_head slots64[64];
static struct hlist_head slots512[512];

static void add(struct hlist_head *slots, unsigned int bits, struct probe *p)
{
	INIT_HLIST_NODE(&p->hlist);
	hlist_add_head_rcu(&p->hlist, &slots[hash_long(p->addr, bits)]);
}

static __always_inline struct probe *
find(struct hlist_head *slots, unsigned int bits, unsigned long addr)
{
	struct probe *p;

	hlist_for_each_entry_rcu(p, &slots[hash_long(addr, bits)], hlist, true)
		if (p->addr == addr)
			return p;
	return NULL;
}

static void take_out(struct probe *p)
{
	hlist_del_rcu(&p->hlist);
}

static int nothing(void)
{
	return 0;
}

static int add64(struct probe *p)
{
	add(slots64, 6, p);
	return 0;
}

static struct probe *find64(unsigned long addr)
{
	return find(slots64, 6, addr);
}

/* Probes that an error has left. */
static void destroy64(void)
{
	memset(slots64, 0, sizeof(slots64));
}

static size_t bytes64(unsigned int count)
{
	return sizeof(slots64) + sizeof(struct hlist_node) * count;
}

static int add512(struct probe *p)
{
	add(slots512, 9, p);
	return 0;
}

static struct probe *find512(unsigned long addr)
{
	return find(slots512, 9, addr);
}

/* Probes that an error has left. */
static void destroy512(void)
{
	memset(slots512, 0, sizeof(slots512));
}

static size_t bytes512(unsigned int count)
{
	return sizeof(slots512) + sizeof(struct hlist_node) * count;
}

const struct structure table64 = {
	.name = "table64", .init = nothing, .add = add64, .remove = take_out,
	.find = find64, .bytes = bytes64, .destroy = destroy64,
};

const struct structure table512 = {
	.name = "table512", .init = nothing, .add = add512, .remove = take_out,
	.find = find512, .bytes = bytes512, .destroy = destroy512,
};

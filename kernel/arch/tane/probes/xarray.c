// SPDX-License-Identifier: GPL-2.0-only
/*
 * An XArray with addresses as indices, and one with their distance from the
 * text's start: its tree has four levels where the other's has nearly all.
 */
#include <linux/xarray.h>
#include <asm/sections.h>

#include "probes.h"
#include "xarray.h"

static struct xarray addresses_xa = XARRAY_INIT(addresses_xa, 0);
struct xarray probes_xa = XARRAY_INIT(probes_xa, 0);

static int nothing(void)
{
	return 0;
}

static int add_address(struct probe *p)
{
	return xa_insert(&addresses_xa, p->addr, p, GFP_KERNEL);
}

static void remove_address(struct probe *p)
{
	xa_erase(&addresses_xa, p->addr);
}

static struct probe *find_address(unsigned long addr)
{
	return xa_load(&addresses_xa, addr);
}

static void destroy_address(void)
{
	xa_destroy(&addresses_xa);
}

int add_offset(struct probe *p)
{
	return xa_insert(&probes_xa, text_offset(p->addr), p, GFP_KERNEL);
}

void remove_offset(struct probe *p)
{
	xa_erase(&probes_xa, text_offset(p->addr));
}

static struct probe *find_offset(unsigned long addr)
{
	return xa_load(&probes_xa, text_offset(addr));
}

void destroy_offset(void)
{
	xa_destroy(&probes_xa);
}

static size_t nodes(const void *entry)
{
	const struct xa_node *node;
	size_t found = 1;
	unsigned int i;

	if (!xa_is_node(entry))
		return 0;
	node = xa_to_node(entry);
	for (i = 0; node->shift && i < XA_CHUNK_SIZE; i++)
		found += nodes(rcu_dereference_protected(node->slots[i], true));
	return found;
}

size_t xarray_bytes(struct xarray *xa)
{
	const void *head = rcu_dereference_protected(xa->xa_head, true);

	return sizeof(struct xa_node) * nodes(head);
}

static size_t bytes_address(unsigned int count)
{
	return xarray_bytes(&addresses_xa);
}

static size_t bytes_offset(unsigned int count)
{
	return xarray_bytes(&probes_xa);
}

const struct structure by_address = {
	.name = "xarray-address", .init = nothing, .add = add_address,
	.remove = remove_address, .find = find_address,
	.bytes = bytes_address, .destroy = destroy_address,
};

const struct structure by_offset = {
	.name = "xarray", .init = nothing, .add = add_offset,
	.remove = remove_offset, .find = find_offset,
	.bytes = bytes_offset, .destroy = destroy_offset,
};

/* SPDX-License-Identifier: GPL-2.0-only */
/* The XArray by offsets, which is also what is behind a cache. */
#ifndef _TANE_PROBES_XARRAY_H
#define _TANE_PROBES_XARRAY_H

#include <linux/xarray.h>
#include <asm/sections.h>

#include "probes.h"

extern struct xarray probes_xa;

static inline unsigned long text_offset(unsigned long addr)
{
	return addr - (unsigned long)_stext;
}

int add_offset(struct probe *p);
void remove_offset(struct probe *p);
void destroy_offset(void);
size_t xarray_bytes(struct xarray *xa);

#endif /* _TANE_PROBES_XARRAY_H */

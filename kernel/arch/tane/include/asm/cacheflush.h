/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_CACHEFLUSH_H
#define _ASM_TANE_CACHEFLUSH_H

#include <asm/tlbflush.h>

/*
 * No cache to flush, but the moments when vmalloc has written its page table
 * entries, to show the pages in one go instead of by one fault each, and when
 * it is about to clear them: the TLB flush may come 32 MiB later, and the host
 * allows only so many mappings.
 */
#define flush_cache_vmap tane_map_vmalloc
#define flush_cache_vunmap tane_unmap_vmalloc
#define flush_cache_vmap_early(start, end) do { } while (0)

#include <asm-generic/cacheflush.h>

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_ARCHRANDOM_H
#define _ASM_TANE_ARCHRANDOM_H

#include <asm/machine.h>

static inline size_t __must_check arch_get_random_longs(unsigned long *v,
							size_t max_longs)
{
	return 0;
}

/* The host's getrandom() seeds us, so entropy is there from the start. */
static inline size_t __must_check arch_get_random_seed_longs(unsigned long *v,
							     size_t max_longs)
{
	return tane_random(v, max_longs * sizeof(*v)) ? 0 : max_longs;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_TIMEX_H
#define _ASM_TANE_TIMEX_H

#include <asm/machine.h>

typedef unsigned long cycles_t;

static inline cycles_t get_cycles(void)
{
	unsigned int low, high;

	asm volatile("rdtsc" : "=a" (low), "=d" (high));
	return low | ((cycles_t)high << 32);
}

#define get_cycles get_cycles

/*
 * The host's clock, which a host can let stand still: the processor's cycles
 * would make random numbers from the host's seed differ in every run.
 */
#define random_get_entropy() ((unsigned long)tane_monotonic())

#include <asm-generic/timex.h>

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_TIMEX_H
#define _ASM_TANE_TIMEX_H

typedef unsigned long cycles_t;

static inline cycles_t get_cycles(void)
{
	unsigned int low, high;

	asm volatile("rdtsc" : "=a" (low), "=d" (high));
	return low | ((cycles_t)high << 32);
}

#define get_cycles get_cycles

#include <asm-generic/timex.h>

#endif

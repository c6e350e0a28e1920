/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_VDSO_DATA_H
#define _ASM_TANE_VDSO_DATA_H

#include <linux/types.h>

/* Addresses outside of the program, from struct tane_boot. */
struct arch_vdso_data {
	u64 clock_gettime;
	u64 gate;
};

#endif

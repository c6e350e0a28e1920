/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_SIMD_H
#define _ASM_TANE_SIMD_H

#include <asm/fpu/api.h>

static __must_check inline bool may_use_simd(void)
{
	return irq_fpu_usable();
}

#endif

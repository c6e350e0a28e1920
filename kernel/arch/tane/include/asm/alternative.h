/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code is never patched: the text is mapped from the image file. This is what
 * the atomics borrowed from arch/x86 need of its header.
 */
#ifndef _ASM_TANE_ALTERNATIVE_H
#define _ASM_TANE_ALTERNATIVE_H

#include <asm/asm.h>

#ifdef __ASSEMBLY__
#ifdef CONFIG_SMP
	.macro LOCK_PREFIX
	lock
	.endm
#else
	.macro LOCK_PREFIX
	.endm
#endif
#else
#ifdef CONFIG_SMP
#define LOCK_PREFIX "lock; "
#else
#define LOCK_PREFIX ""
#endif
#define LOCK_PREFIX_HERE ""
#define alternative(old, new, feature) asm volatile(old : : : "memory")
#endif

#endif

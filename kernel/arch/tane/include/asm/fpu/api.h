/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Vector registers belong to the host thread that is inside. A call of ours is a
 * function call to it, which may clobber all of them, and kernel code outside of
 * these sections uses none: so nothing is saved on the way in. What could clobber
 * them within a section is kept out or saved:
 *
 * - a task switch, and an interrupt, whose handler may call the host: a section
 *   runs with interrupts off, and Linux does not sleep in one;
 * - a signal of the host: its kernel saves and restores them;
 * - a TLB miss in a window, which has the host map the page: tane_fault() saves
 *   them while it is in a section.
 *
 * So every context may open a section, and none is ever interrupted by another.
 */
#ifndef _ASM_TANE_FPU_API_H
#define _ASM_TANE_FPU_API_H

#include <linux/bits.h>
#include <linux/types.h>
#include <asm/cpufeature.h>

/* Intel SDM volume 1, 13.1: state components of XSAVE. */
#define XFEATURE_MASK_SSE	BIT(1)
#define XFEATURE_MASK_YMM	BIT(2)
#define XFEATURE_MASK_AVX512	(BIT(5) | BIT(6) | BIT(7))

void kernel_fpu_begin(void);
void kernel_fpu_end(void);

static inline bool irq_fpu_usable(void)
{
	return true;
}

/* Whether the host saves all of these when it switches threads. */
int cpu_has_xfeatures(u64 features, const char **name);

/* For tane_fault(): true if there is something to restore. */
bool tane_fpu_save(void);
void tane_fpu_restore(void);

#endif

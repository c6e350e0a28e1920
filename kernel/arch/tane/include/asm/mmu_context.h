/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_MMU_CONTEXT_H
#define _ASM_TANE_MMU_CONTEXT_H

#include <linux/mm_types.h>
#include <asm-generic/mm_hooks.h>

static inline void switch_mm(struct mm_struct *prev, struct mm_struct *next,
			     struct task_struct *task)
{
	/* All host threads share one host address space. */
}

#define init_new_context init_new_context
static inline int init_new_context(struct task_struct *task,
				   struct mm_struct *mm)
{
	mm->context.shown = false;
	return 0;
}

#include <asm-generic/mmu_context.h>

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_MMU_CONTEXT_H
#define _ASM_TANE_MMU_CONTEXT_H

#include <linux/mm_types.h>
#include <linux/sched.h>
#include <asm/machine.h>

#ifdef CONFIG_TANE_RUN
#include <asm/program.h>

static inline int arch_dup_mmap(struct mm_struct *old, struct mm_struct *new)
{
	if (old->context.program)
		tane_copy_claims(old, new);
	return 0;
}

static inline void arch_exit_mmap(struct mm_struct *mm)
{
	tane_exit_mmap(mm);
}

static inline bool arch_vma_access_permitted(struct vm_area_struct *vma,
					     bool write, bool execute,
					     bool foreign)
{
	return true;
}
#else
#include <asm-generic/mm_hooks.h>
#endif

static inline void switch_mm(struct mm_struct *prev, struct mm_struct *next,
			     struct task_struct *task)
{
	/* All host threads share one host address space. */
}

/* A program's task that goes on, maybe where another's memory is shown. */
static inline void tane_finish_switch(void)
{
#ifdef CONFIG_TANE_RUN
	struct mm_struct *mm = current->mm;

	if (mm && mm->context.program && !current->thread.away &&
	    (unlikely(!mm->context.shown) || tane_boot->nr_vcpus > 1))
		tane_take_window(mm);
#endif
}

/* A task that goes on where its memory is not: kernel/shared.c */
static inline void finish_arch_post_lock_switch(void)
{
	if (unlikely(current->thread.process))
		tane_come_home();
	tane_finish_switch();
}

#define finish_arch_post_lock_switch finish_arch_post_lock_switch

/* Only one process's window would learn of what is taken away. */
#define arch_mmap_check(addr, len, flags)	\
	(tane_boot->shared ? -EOPNOTSUPP : 0)

#define init_new_context init_new_context
static inline int init_new_context(struct task_struct *task,
				   struct mm_struct *mm)
{
	mm->context = (mm_context_t){ };
	return 0;
}

#ifdef CONFIG_TANE_RUN
void tane_activate_mm(struct mm_struct *prev, struct mm_struct *next);
#define activate_mm tane_activate_mm
#endif

#include <asm-generic/mmu_context.h>

#endif

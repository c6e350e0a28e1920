/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_CURRENT_H
#define _ASM_TANE_CURRENT_H

#include <asm/vcpu.h>

struct task_struct;

/*
 * Not volatile, so that the compiler may keep it in a register: it changes
 * only inside __switch_to, where every task sees its own value come back.
 */
static __always_inline struct task_struct *get_current(void)
{
	struct task_struct *task;

	asm("movq %%gs:%c1, %0" : "=r" (task)
	    : "i" (TANE_VCPU_AT +
		   (long)offsetof(struct tane_vcpu, current_task)));
	return task;
}

#define current get_current()

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* ptrace.c, regset.c: registers of programs, for their tracers and core dumps. */
#ifndef _TANE_KERNEL_REGSET_H
#define _TANE_KERNEL_REGSET_H

#include <linux/types.h>

struct task_struct;
struct tane_program;

enum tane_regset {
	TANE_REGSET_GENERAL,
	TANE_REGSET_FP,
	TANE_REGSET_XSTATE,
};

/* By the offset in struct user_regs_struct; of a task that runs a program. */
unsigned long tane_get_reg(struct task_struct *task, unsigned long offset);
int tane_set_reg(struct task_struct *task, unsigned long offset,
		 unsigned long value);

/* program.c */
long tane_arch_prctl(struct tane_program *program, int option,
		     unsigned long addr);

/* ptrace.c: of the current task */
void tane_tell_traced(void);
bool tane_is_looked_at(void);
long tane_call_looked_at(void);
long tane_end_looked_at(long ret);

#endif

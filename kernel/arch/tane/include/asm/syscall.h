/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A call as its filter and its tracer see it. Of a program all registers are in the
 * kernel by the time that it is looked at, whichever way they came. A host thread's
 * never enter the kernel, so there is nothing to see of one.
 */
#ifndef _ASM_TANE_SYSCALL_H
#define _ASM_TANE_SYSCALL_H

#include <uapi/linux/audit.h>
#include <linux/err.h>
#include <linux/sched.h>
#include <asm/ptrace.h>

typedef long (*sys_call_ptr_t)(unsigned long, unsigned long, unsigned long,
			       unsigned long, unsigned long, unsigned long);
extern const sys_call_ptr_t sys_call_table[];

#ifdef CONFIG_TANE_RUN
static inline bool tane_has_registers(struct task_struct *task)
{
	return task->thread.program;
}

/* While it is in its own code they tell of its last call. */
static inline bool tane_is_in_call(struct task_struct *task)
{
	return tane_has_registers(task) &&
	       (task == current || !READ_ONCE(task->thread.outside));
}
#else
static inline bool tane_has_registers(struct task_struct *task)
{
	return false;
}

static inline bool tane_is_in_call(struct task_struct *task)
{
	return false;
}
#endif

static inline int syscall_get_nr(struct task_struct *task, struct pt_regs *regs)
{
	return tane_is_in_call(task) ? regs->orig_rax : -1;
}

static inline void syscall_rollback(struct task_struct *task,
				    struct pt_regs *regs)
{
	if (tane_has_registers(task))
		regs->rax = regs->orig_rax;
}

static inline long syscall_get_error(struct task_struct *task,
				     struct pt_regs *regs)
{
	return tane_has_registers(task) && IS_ERR_VALUE(regs->rax) ?
	       regs->rax : 0;
}

static inline long syscall_get_return_value(struct task_struct *task,
					    struct pt_regs *regs)
{
	return tane_has_registers(task) ? regs->rax : 0;
}

static inline void syscall_set_return_value(struct task_struct *task,
					    struct pt_regs *regs,
					    int error, long val)
{
	if (tane_has_registers(task))
		regs->rax = error ?: val;
}

static inline void syscall_get_arguments(struct task_struct *task,
					 struct pt_regs *regs,
					 unsigned long *args)
{
	if (!tane_has_registers(task)) {
		memset(args, 0, 6 * sizeof(args[0]));
		return;
	}
	args[0] = regs->rdi;
	args[1] = regs->rsi;
	args[2] = regs->rdx;
	args[3] = regs->r10;
	args[4] = regs->r8;
	args[5] = regs->r9;
}

static inline int syscall_get_arch(struct task_struct *task)
{
	return AUDIT_ARCH_X86_64;
}

#endif

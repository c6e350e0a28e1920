/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A call as its filter sees it. Of a program all registers are in the kernel by the
 * time it is looked at, whichever way they came; of other threads of the host none is,
 * and they have no filters (oci/seccomp.c).
 */
#ifndef _ASM_TANE_OCI_SYSCALL_H
#define _ASM_TANE_OCI_SYSCALL_H

#include <uapi/linux/audit.h>
#include <linux/err.h>
#include <linux/sched.h>
#include <asm/ptrace.h>

typedef long (*sys_call_ptr_t)(unsigned long, unsigned long, unsigned long,
			       unsigned long, unsigned long, unsigned long);
extern const sys_call_ptr_t sys_call_table[];

/* Behind the call's instruction, which is what SIGSYS tells. */
#undef KSTK_EIP
#define KSTK_EIP(task) \
	((task)->thread.program ? task_pt_regs(task)->rip : 0UL)

static inline int syscall_get_nr(struct task_struct *task, struct pt_regs *regs)
{
	return task->thread.program ? regs->orig_rax : -1;
}

static inline void syscall_rollback(struct task_struct *task,
				    struct pt_regs *regs)
{
	regs->rax = regs->orig_rax;
}

static inline long syscall_get_error(struct task_struct *task,
				     struct pt_regs *regs)
{
	return task->thread.program && IS_ERR_VALUE(regs->rax) ? regs->rax : 0;
}

static inline long syscall_get_return_value(struct task_struct *task,
					    struct pt_regs *regs)
{
	return task->thread.program ? regs->rax : 0;
}

static inline void syscall_set_return_value(struct task_struct *task,
					    struct pt_regs *regs,
					    int error, long val)
{
	regs->rax = error ?: val;
}

static inline void syscall_get_arguments(struct task_struct *task,
					 struct pt_regs *regs,
					 unsigned long *args)
{
	if (!task->thread.program) {
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

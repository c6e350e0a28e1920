// SPDX-License-Identifier: GPL-2.0-only
/*
 * Filters of programs' system calls. Both ways in ask here before a call is made, of
 * threads with TIF_SECCOMP: by then the program's registers are in its struct pt_regs,
 * where Linux's seccomp.c looks for the call, and writes its answer. A signal that it
 * sends is delivered where all are, at the end of the call, or once the thread has been
 * called in.
 */
#include <linux/prctl.h>
#include <linux/sched/task_stack.h>
#include <linux/seccomp.h>
#include <linux/syscalls.h>
#include <asm/filter.h>
#include <asm/syscall.h>

/* Of a program's own call, posted; the answer is in rax then. */
bool tane_is_filtered(void)
{
	return secure_computing();
}

/*
 * Of call only number and arguments are there; it gets the answer. What a tracer that is
 * told by the filter writes into the registers would be lost here: who has one posts its
 * calls, and who got one just now makes this call again. Numbers that no call can have
 * are -1 by then, but not in the registers.
 */
bool tane_filter_call(struct pt_regs *call)
{
	struct pt_regs *regs = current_pt_regs();

	if (!tane_runs_program() ||
	    (call->orig_rax != -1 && call->orig_rax != regs->orig_rax))
		return false;
	if (current->ptrace) {
		set_thread_flag(TIF_SIGPENDING);
		call->rax = -ERESTARTNOINTR;
		return true;
	}
	/* As on x86-64, for who looks at it on the way in. */
	regs->rax = -ENOSYS;
	if (!secure_computing())
		return false;
	call->rax = regs->rax;
	return true;
}

/*
 * A filter of a thread that runs no program would be asked by nobody, as its registers
 * never enter the kernel.
 */
SYSCALL_DEFINE3(tane_seccomp, unsigned int, op, unsigned int, flags,
		void __user *, args)
{
	if (!tane_runs_program() && (op == SECCOMP_SET_MODE_STRICT ||
				     op == SECCOMP_SET_MODE_FILTER))
		return -EOPNOTSUPP;
	return sys_seccomp(op, flags, args);
}

SYSCALL_DEFINE5(tane_prctl, int, option, unsigned long, arg2,
		unsigned long, arg3, unsigned long, arg4, unsigned long, arg5)
{
	if (!tane_runs_program() && option == PR_SET_SECCOMP)
		return -EOPNOTSUPP;
	return sys_prctl(option, arg2, arg3, arg4, arg5);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracers of programs. The calls of who has one are posted (tane_program.traced), so
 * that all of its registers are here wherever it stops, and what its tracer writes into
 * them is what it goes on with. The gate knows nothing of it; the stops are Linux's.
 */
#include <linux/nospec.h>
#include <linux/ptrace.h>
#include <linux/regset.h>
#include <linux/resume_user_mode.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/signal.h>
#include <linux/syscalls.h>
#include <asm/machine.h>
#include <asm/processor-flags.h>
#include <asm/program.h>
#include <asm/syscall.h>
#include <asm/user.h>
#ifdef CONFIG_TANE_SECCOMP
#include <asm/filter.h>
#endif
#include "regset.h"

void tane_tell_traced(void)
{
	struct tane_program *program = current->thread.program;

	if (program)
		WRITE_ONCE(program->traced, !!current->ptrace);
}

/* Whether somebody is to see a program's call before it is made. */
bool tane_is_looked_at(void)
{
	unsigned long looks = _TIF_SYSCALL_TRACE | _TIF_SYSCALL_EMU;

	if (IS_ENABLED(CONFIG_TANE_SECCOMP))
		looks |= _TIF_SECCOMP;
	return tane_runs_program() &&
	       (READ_ONCE(current_thread_info()->flags) & looks);
}

static bool tane_is_stopped(struct pt_regs *regs)
{
	unsigned long flags = READ_ONCE(current_thread_info()->flags);

	if (!(flags & (_TIF_SYSCALL_TRACE | _TIF_SYSCALL_EMU)))
		return false;
	return ptrace_report_syscall_entry(regs) || (flags & _TIF_SYSCALL_EMU);
}

static bool tane_is_refused(void)
{
#ifdef CONFIG_TANE_SECCOMP
	return tane_is_filtered();
#else
	return false;
#endif
}

/* The program's own call, as its tracer and its filters leave it. */
long tane_call_looked_at(void)
{
	struct pt_regs *regs = current_pt_regs();
	unsigned int nr;

	/* As on x86-64, for who looks at it on the way in. */
	regs->rax = -ENOSYS;
	if (tane_is_stopped(regs) || tane_is_refused())
		return regs->rax;
	nr = regs->orig_rax;
	if (nr == -1U)
		return regs->rax;
	if (nr >= NR_syscalls)
		return -ENOSYS;
	nr = array_index_nospec(nr, NR_syscalls);
	return sys_call_table[nr](regs->rdi, regs->rsi, regs->rdx, regs->r10,
				  regs->r8, regs->r9);
}

/* The end of a program's call, interrupts off: its result, as its tracer leaves it. */
long tane_end_looked_at(long ret)
{
	unsigned long flags = READ_ONCE(current_thread_info()->flags);
	struct pt_regs *regs = current_pt_regs();
	bool step;

	if (likely(!(flags & _TIF_CALL_TRACED)))
		return ret;
	step = (flags & _TIF_SINGLESTEP) && !(flags & _TIF_SYSCALL_EMU);
	if (!step && !(flags & _TIF_SYSCALL_TRACE))
		return ret;
	regs->rax = ret;
	local_irq_enable();
	ptrace_report_syscall_exit(regs, step);
	local_irq_disable();
	return regs->rax;
}

void user_single_step_report(struct pt_regs *regs)
{
	force_sig_fault(SIGTRAP, TRAP_BRKPT, (void __user *)regs->rip);
}

/* As arch/x86 has it: whose the trap flag is, is remembered. */
void user_enable_single_step(struct task_struct *child)
{
	struct pt_regs *regs = task_pt_regs(child);

	if (test_tsk_thread_flag(child, TIF_SINGLESTEP))
		regs->eflags |= X86_EFLAGS_TF;
	set_tsk_thread_flag(child, TIF_SINGLESTEP);
	if (regs->eflags & X86_EFLAGS_TF)
		return;
	regs->eflags |= X86_EFLAGS_TF;
	set_tsk_thread_flag(child, TIF_FORCED_TF);
}

void user_disable_single_step(struct task_struct *child)
{
	clear_tsk_thread_flag(child, TIF_SINGLESTEP);
	if (test_and_clear_tsk_thread_flag(child, TIF_FORCED_TF))
		task_pt_regs(child)->eflags &= ~X86_EFLAGS_TF;
}

void ptrace_disable(struct task_struct *child)
{
	user_disable_single_step(child);
}

/* There are no debug registers: they are 0, and stay so. */
static bool tane_is_debug_register(unsigned long addr)
{
	return addr >= offsetof(struct user, u_debugreg) &&
	       addr < offsetofend(struct user, u_debugreg);
}

/* Words of struct user. */
static long tane_peek_user(struct task_struct *child, unsigned long addr,
			   unsigned long data)
{
	unsigned long word = 0;

	if (addr % sizeof(word) || addr >= sizeof(struct user))
		return -EIO;
	if (addr < sizeof(struct user_regs_struct))
		word = tane_get_reg(child, addr);
	return put_user(word, (unsigned long __user *)data);
}

static long tane_poke_user(struct task_struct *child, unsigned long addr,
			   unsigned long data)
{
	if (addr % sizeof(data))
		return -EIO;
	if (addr < sizeof(struct user_regs_struct))
		return tane_set_reg(child, addr, data);
	/* Debuggers write 0 for each new thread. */
	return tane_is_debug_register(addr) && !data ? 0 : -EIO;
}

/* Old names of what PTRACE_GETREGSET and PTRACE_SETREGSET do. */
static long tane_whole_regset(struct task_struct *child, enum tane_regset at,
			      unsigned long data, bool set)
{
	const struct user_regset_view *view = task_user_regset_view(child);
	const struct user_regset *regset = view->regsets + at;
	unsigned int size = regset->n * regset->size;

	if (set)
		return copy_regset_from_user(child, view, at, 0, size,
					     (const void __user *)data);
	return copy_regset_to_user(child, view, at, 0, size,
				   (void __user *)data);
}

long arch_ptrace(struct task_struct *child, long request, unsigned long addr,
		 unsigned long data)
{
	switch (request) {
	case PTRACE_PEEKUSR:
	case PTRACE_POKEUSR:
	case PTRACE_GETREGS:
	case PTRACE_SETREGS:
	case PTRACE_GETFPREGS:
	case PTRACE_SETFPREGS:
	case PTRACE_ARCH_PRCTL:
		/* Of a thread that is the caller's own nothing is here. */
		if (!child->thread.program)
			return -EIO;
		break;
	default:
		return ptrace_request(child, request, addr, data);
	}
	switch (request) {
	case PTRACE_PEEKUSR:
		return tane_peek_user(child, addr, data);
	case PTRACE_POKEUSR:
		return tane_poke_user(child, addr, data);
	case PTRACE_GETREGS:
	case PTRACE_SETREGS:
		return tane_whole_regset(child, TANE_REGSET_GENERAL, data,
					 request == PTRACE_SETREGS);
	case PTRACE_GETFPREGS:
	case PTRACE_SETFPREGS:
		return tane_whole_regset(child, TANE_REGSET_FP, data,
					 request == PTRACE_SETFPREGS);
	default:
		return tane_arch_prctl(child->thread.program, data, addr);
	}
}

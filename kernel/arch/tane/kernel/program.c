// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs. A host thread runs one's code, outside of the kernel, and comes in
 * with all of its registers: they are struct pt_regs on its task's kernel stack,
 * as on any architecture, and what is in no pt_regs is struct tane_program. The
 * host writes them before it asks for something and runs on with what it finds
 * there afterwards.
 */
#include <linux/kernel_stat.h>
#include <linux/prctl.h>
#include <linux/resume_user_mode.h>
#include <linux/sched/cputime.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <linux/syscalls.h>
#include <asm/machine.h>
#include <asm/mmu_context.h>
#include <asm/prctl.h>
#include <asm/program.h>
#include <asm/processor-flags.h>
#include "regset.h"
#include "window.h"

/* Whose execve() can work: a thread made for it. */
bool tane_may_exec(void)
{
	struct tane_thread *slot = current->thread.slot;

	return slot && slot->program;
}

/* A process of its own for a host thread, sharing memory until its execve(). */
long tane_spawn(struct tane_thread *slot)
{
	struct kernel_clone_args args = {
		.flags = CLONE_VM,
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (!slot->program)
		return -EINVAL;
	current->thread.new_slot = slot;
	current->thread.new_window = 0;
	pid = kernel_clone(&args);
	current->thread.new_slot = NULL;
	return pid;
}

/* execve(): the new address space is the one to show. */
void tane_activate_mm(struct mm_struct *prev, struct mm_struct *next)
{
	struct tane_thread *slot = current->thread.slot;

	if (slot && slot->program)
		tane_enter_program(next);
}

void flush_thread(void)
{
	struct tane_thread *slot = current->thread.slot;
	struct tane_program *program;

	if (!slot || !slot->program)
		return;
	program = (struct tane_program *)slot->program;
	program->regs = (u64)current_pt_regs();
	program->fs_base = 0;
	tane_init_xstate(program);
	current->thread.program = program;
	current->thread.called_in = false;
	tane_tell_tid();
	tane_tell_traced();
	if (!current->mm->context.shown)
		tane_take_window(current->mm);
}

void start_thread(struct pt_regs *regs, unsigned long pc, unsigned long sp)
{
	regs->rip = pc;
	regs->rsp = sp;
	regs->cs = USER_CS;
	regs->ss = USER_DS;
	regs->eflags = X86_EFLAGS_IF | X86_EFLAGS_FIXED;
}

/* Another thread or process of a program, on a host thread of its own. */
int tane_copy_program(struct task_struct *p,
		      const struct kernel_clone_args *args)
{
	struct tane_program *ours = current->thread.program, *program;
	struct pt_regs *regs = task_pt_regs(p);
	struct tane_thread *slot;

	slot = (struct tane_thread *)tane_host(new_thread, current->thread.slot,
					       0, 0, 0);
	if (!slot)
		return -EAGAIN;

	*regs = *current_pt_regs();
	regs->rax = 0;
	if (args->stack)
		regs->rsp = args->stack;
	program = (struct tane_program *)slot->program;
	program->regs = (u64)regs;
	program->fs_base = args->flags & CLONE_SETTLS ? args->tls :
							ours->fs_base;
	memcpy((void *)program->xstate, (void *)ours->xstate, ours->xstate_size);
	p->thread.program = program;
	p->thread.slot = slot;
	slot->task = (u64)p;
	return 0;
}

/* The host thread learns that it has nothing to run any more. */
void exit_thread(struct task_struct *task)
{
	struct tane_thread *slot = task->thread.slot;

	if (!slot)
		return;
	if (!slot->program) {
		tane_end_slot(task);
		return;
	}
	task->thread.program = NULL;
	task->thread.slot = NULL;
	slot->task = 0;
	tane_answer(slot, 0);
}

/*
 * Its host thread has asked for something: what it has computed since, irqs off. The
 * scheduler has seen of it what passed until somebody else came into this CPU.
 */
void tane_account_program(void)
{
	struct thread_struct *thread = &current->thread;
	struct sched_entity *se = &current->se;
	u64 ran, seen;

	if (!thread->program || !thread->program->ran)
		return;
	ran = thread->program->ran;
	thread->program->ran = 0;
	thread->ran += ran;
	account_user_time(current, ran);
	seen = se->sum_exec_runtime;
	if (seen < thread->ran) {
		se->sum_exec_runtime = thread->ran;
		account_group_exec_runtime(current, thread->ran - seen);
	}
}

/* From its first moment on, and when execve() has made another thread the first one. */
void tane_tell_tid(void)
{
	struct tane_program *program = current->thread.program;

	if (program)
		program->tid = task_pid_vnr(current);
}

/*
 * Signals for a program whose thread is outside: only with its registers can
 * they be delivered, so it is called in, once.
 */
bool tane_is_called_in(void)
{
	struct thread_struct *thread = &current->thread;

	if (!thread->program ||
	    !(READ_ONCE(current_thread_info()->flags) & _TIF_SIGNALS))
		return false;
	if (!thread->called_in) {
		thread->called_in = true;
		tane_host(call_in, thread->slot, 0, 0, 0);
	}
	return true;
}

/* What a program's thread came in for, other than a system call. */
long tane_program_request(struct tane_thread *slot)
{
	struct thread_struct *thread = &current->thread;
	struct pt_regs *regs = current_pt_regs();
	int signal = slot->args[3], code = slot->args[4];

	local_irq_enable();
	if (slot->nr >= TANE_NR_TEXT) {
		long ret = tane_text_request(slot->nr, slot->args[0],
					     (void *)slot->args[1],
					     slot->args[2]);

		local_irq_disable();
		return ret;
	}
	if (slot->nr == TANE_NR_TRAP) {
		thread->cr2 = slot->args[0];
		thread->error_code = slot->args[1];
		thread->trap_nr = slot->args[2];
		/* SIGBUS: the host has no memory for a page that is shown. */
		if (thread->trap_nr == 14 && signal == SIGSEGV)
			tane_program_fault(regs, thread->cr2, thread->error_code);
		else if (code == SI_KERNEL)
			force_sig(signal);
		else
			force_sig_fault(signal, code,
					(void __user *)thread->cr2);
	}
	local_irq_disable();
	return tane_leave_to_program(regs->rax);
}

/* Whether a call of current's came by the gate, which leaves vector registers alone. */
static bool tane_is_in_gate(void)
{
	struct tane_program *program = current->thread.program;

	return program && !READ_ONCE(program->xfeatures);
}

/*
 * The end of any way back to the program, interrupts off: what is in rax then.
 * After a call by the gate the program's vector registers are not here, so that
 * its signals wait until its thread asks for them.
 */
long tane_leave_to_program(long ret)
{
	struct pt_regs *regs = current_pt_regs();
	unsigned long work;

	regs->rax = ret;
	while ((work = READ_ONCE(current_thread_info()->flags) &
		       _TIF_WORK_MASK)) {
		if (tane_is_in_gate() && tane_is_called_in()) {
			work &= ~_TIF_SIGNALS;
			if (!work)
				break;
		}
		local_irq_enable();
		if (work & _TIF_NEED_RESCHED)
			tane_reschedule_program(false);
		if (work & _TIF_SIGNALS) {
			current->thread.called_in = false;
			tane_do_signal(regs);
		}
		if (work & _TIF_NOTIFY_RESUME)
			resume_user_mode_work(regs);
		local_irq_disable();
	}
	tane_tell_traced();
	return regs->rax;
}

long tane_arch_prctl(struct tane_program *program, int option,
		     unsigned long addr)
{
	switch (option) {
	case ARCH_SET_FS:
		if (addr >= TASK_SIZE_MAX)
			return -EPERM;
		program->fs_base = addr;
		return 0;
	case ARCH_GET_FS:
		return put_user(program->fs_base, (unsigned long __user *)addr);
	default:
		/* The GS base is the virtual CPU's. */
		return -EINVAL;
	}
}

SYSCALL_DEFINE2(arch_prctl, int, option, unsigned long, addr)
{
	struct tane_program *program = current->thread.program;

	return program ? tane_arch_prctl(program, option, addr) : -ENOSYS;
}

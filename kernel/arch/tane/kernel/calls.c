// SPDX-License-Identifier: GPL-2.0-only
/*
 * What happens between the gate and the rest of Linux: system calls of the
 * host's threads, and the work at their end.
 */
#include <linux/resume_user_mode.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/syscalls.h>
#include <asm/machine.h>
#include <asm/program.h>
#include <asm/ptrace.h>
#include <asm/syscall.h>
#include "calls.h"
#include "regset.h"
#include "window.h"

/*
 * Nobody runs signal handlers for the host's threads: a fatal signal ends the
 * call with EINTR and is otherwise without effect, as pid 1's group is exempt.
 */
static bool tane_handle_signal(void)
{
	struct ksignal ksig;
	bool signalled;

	/* Its end would tell its memory, and this may be another process. */
	if (current->thread.process && current->thread.roams &&
	    fatal_signal_pending(current))
		tane_forget_memory(current);
	signalled = get_signal(&ksig);

	/* That of ppoll() and its kin: no handler's return brings it back. */
	restore_saved_sigmask();
	return signalled;
}

static void tane_reschedule(void)
{
	if (IS_ENABLED(CONFIG_TANE_RUN) && tane_runs_program())
		tane_reschedule_outside();
	else
		schedule();
}

/* With interrupts off, like the way back to user mode of any architecture. */
noinline bool tane_exit_work(void)
{
	unsigned long work;
	bool signalled = false;

	while ((work = READ_ONCE(current_thread_info()->flags)) & _TIF_WORK_MASK) {
		if (tane_calls_in()) {
			work &= _TIF_WORK_MASK & ~_TIF_SIGNALS;
			if (!work)
				break;
		}
		local_irq_enable();
		if (work & _TIF_NEED_RESCHED)
			tane_reschedule();
		if (work & _TIF_SIGNALS)
			signalled |= tane_handle_signal();
		if (work & _TIF_NOTIFY_RESUME)
			resume_user_mode_work(NULL);
		local_irq_disable();
	}
	return signalled;
}

/* An interrupted call starts again, unless a signal was the reason. */
static bool tane_must_restart(long *nr, long *ret, bool signalled)
{
	switch (*ret) {
	case -ERESTART_RESTARTBLOCK:
		if (!signalled) {
			*nr = __NR_restart_syscall;
			return true;
		}
		break;
	case -ERESTARTSYS:
	case -ERESTARTNOINTR:
	case -ERESTARTNOHAND:
		if (!signalled)
			return true;
		break;
	default:
		return false;
	}
	*ret = -EINTR;
	return false;
}

noinline long tane_finish_call(long nr, const u64 *args, long ret)
{
	if (IS_ENABLED(CONFIG_TANE_RUN) && tane_runs_program())
		return tane_leave_to_program(tane_end_looked_at(ret));
	for (;;) {
		bool signalled = tane_exit_work();

		if (likely(!tane_must_restart(&nr, &ret, signalled)))
			return ret;
		local_irq_enable();
		ret = tane_do_call(nr, args);
		local_irq_disable();
	}
}

/*
 * Others want this CPU while its host thread goes its own way. It looks at
 * pending when it is out.
 */
static noinline void tane_offer_cpu(void)
{
	tane_raise(tane_vcpu(), TANE_IRQ_RESCHEDULE);
}

/*
 * Host threads wait for their calls, so one of their tasks is likely to be what
 * wants to run: it has little to do, and waking the service thread for it would
 * cost more. Kernel threads may have much to do; they are the service thread's.
 */
static void tane_let_waiters_run(void)
{
	local_irq_enable();
	if (IS_ENABLED(CONFIG_TANE_RUN) && tane_runs_program())
		tane_reschedule_program(true);
	else
		sys_sched_yield();
	local_irq_disable();
}

/*
 * Called by the gate (gate.S), with interrupts off before and after, where a call
 * is not over with the function that does it. The way past these is all there.
 */
void tane_begin_call(void)
{
	local_irq_enable();
}

void tane_mask_call(void)
{
	local_irq_disable();
}

/* Of regs only the call's number and arguments need to be there. */
long tane_end_call(long ret, const struct pt_regs *regs)
{
	const u64 args[6] = {
		regs->rdi, regs->rsi, regs->rdx, regs->r10, regs->r8, regs->r9,
	};

	if (!single_task_running() && tane_vcpu_get(waiters))
		tane_let_waiters_run();
	ret = tane_finish_call(regs->orig_rax, args, ret);
	if (!single_task_running())
		tane_offer_cpu();
	return ret;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * What happens between the gate and the rest of Linux: system calls of the
 * host's threads, the work at their end, and what such a thread's task does
 * while the thread is elsewhere.
 */
#include <linux/nospec.h>
#include <linux/resume_user_mode.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>
#include <linux/sched/task.h>
#include <linux/syscalls.h>
#include <asm/machine.h>
#include <asm/program.h>
#include <asm/ptrace.h>
#include <asm/syscall.h>
#ifdef CONFIG_TANE_SECCOMP
#include <asm/filter.h>
#endif
#include "window.h"

#ifndef CONFIG_TANE_SECCOMP
static bool tane_is_filtered(long nr, long *ret)
{
	return false;
}
#endif

static __always_inline long tane_do_call(long nr, const u64 *args)
{
	u64 a = args[0], b = args[1], c = args[2];
	u64 d = args[3], e = args[4], f = args[5];

	if (unlikely((unsigned long)nr >= NR_syscalls))
		return -ENOSYS;
	nr = array_index_nospec(nr, NR_syscalls);
	return sys_call_table[nr](a, b, c, d, e, f);
}

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

/* Whether signals are for the host thread, which runs a program, to come in for. */
static bool tane_calls_in(void)
{
	return IS_ENABLED(CONFIG_TANE_RUN) && tane_is_called_in();
}

static void tane_reschedule(void)
{
	if (IS_ENABLED(CONFIG_TANE_RUN) && tane_runs_program())
		tane_reschedule_outside();
	else
		schedule();
}

/* With interrupts off, like the way back to user mode of any architecture. */
static noinline bool tane_exit_work(void)
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

static noinline long tane_finish_call(long nr, const u64 *args, long ret)
{
	if (IS_ENABLED(CONFIG_TANE_RUN) && tane_runs_program())
		return tane_leave_to_program(ret);
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

/* Give a result to a host thread by message. */
void tane_answer(struct tane_thread *slot, long ret)
{
	slot->ret = ret;
	slot->vcpu = tane_vcpu_get(cpu);
	/* The result is there before the state says so. */
	smp_store_release(&slot->state, TANE_THREAD_DONE);
	/* State before sleeping; the host, another CPU even to UP, reversed. */
	virt_mb();
	if (READ_ONCE(slot->sleeping))
		tane_wake(slot);
}

void tane_complete(long ret)
{
	if (IS_ENABLED(CONFIG_TANE_RUN))
		tane_return_window();
	/* Its host thread goes its own way. */
	current->thread.roams = true;
	tane_answer(current->thread.slot, ret);
}

static long tane_attach(struct tane_thread *slot, unsigned long window)
{
	struct kernel_clone_args args = {
		.flags = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM,
	};
	long pid;

	if (!window)
		args.flags |= CLONE_FS | CLONE_FILES;
	current->thread.new_slot = slot;
	current->thread.new_window = window;
	pid = kernel_clone(&args);
	current->thread.new_slot = NULL;
	return pid;
}

/*
 * A host thread outlives its task, and waits for a result. It has no task from
 * then on; one that runs a program learns it from exit_thread().
 */
SYSCALL_DEFINE1(tane_exit, int, code)
{
	struct tane_thread *slot = current->thread.slot;

	if (slot && !tane_runs_program()) {
		current->thread.slot = NULL;
		WRITE_ONCE(slot->task, 0);
		tane_answer(slot, 0);
	}
	do_exit((code & 0xff) << 8);
}

/*
 * Whether a call of a program's thread is its host thread's own, for the program:
 * nothing of it may be seen in the program's registers, nor in a signal's frame.
 */
static bool tane_is_for_program(struct tane_thread *slot)
{
	return IS_ENABLED(CONFIG_TANE_RUN) && tane_runs_program() &&
	       current_pt_regs()->orig_rax != slot->nr;
}

static void tane_request(struct tane_thread *slot)
{
	bool quiet;
	long ret;

	switch (slot->nr) {
	case TANE_NR_BOOT:
		ret = 0;
		break;
	case TANE_NR_ATTACH:
		ret = tane_attach((struct tane_thread *)slot->args[0],
				  slot->args[1]);
		break;
	case TANE_NR_FAULT:
		local_irq_enable();
		ret = tane_user_fault(slot->args[0], slot->args[1]);
		local_irq_disable();
		break;
	case TANE_NR_SPAWN:
		ret = IS_ENABLED(CONFIG_TANE_RUN) ?
			tane_spawn((struct tane_thread *)slot->args[0]) : -ENOSYS;
		break;
	case TANE_NR_FORK:
		ret = tane_fork((struct tane_thread *)slot->args[0],
				slot->args[1]);
		break;
	case TANE_NR_REAP:
		ret = tane_reap(slot->args[0], slot->args[1]);
		break;
	case TANE_NR_DETACH:
		slot->task = 0;
		tane_complete(0);
		current->thread.slot = NULL;
		local_irq_enable();
		do_exit(0);
	case TANE_NR_SIGNALS:
	case TANE_NR_TRAP:
	case TANE_NR_TEXT:
	case TANE_NR_PEEK:
	case TANE_NR_POKE:
		ret = IS_ENABLED(CONFIG_TANE_RUN) && tane_runs_program() ?
			tane_program_request(slot) : -ENOSYS;
		break;
	default:
		quiet = tane_is_for_program(slot);
		local_irq_enable();
		if (!tane_is_filtered(slot->nr, &ret))
			ret = tane_do_call(slot->nr, slot->args);
		local_irq_disable();
		if (!quiet)
			ret = tane_finish_call(slot->nr, slot->args, ret);
		break;
	}
	tane_complete(ret);
}

#ifdef CONFIG_TANE_RUN
static void tane_set_outside(bool outside)
{
	current->thread.outside = outside;
}

static void tane_set_away(void)
{
	current->thread.away = true;
}

static void tane_begin_task(void)
{
	tane_tell_tid();
}

static void tane_account(void)
{
	tane_account_program();
}

static bool tane_is_away(void)
{
	return current->thread.away;
}
#else
static void tane_set_outside(bool outside)
{
}

static void tane_set_away(void)
{
}

static void tane_begin_task(void)
{
}

static void tane_account(void)
{
}

static bool tane_is_away(void)
{
	return false;
}
#endif

static bool tane_posted(struct tane_thread *slot)
{
	/* The host wrote the request before it. */
	return smp_load_acquire(&slot->state) == TANE_THREAD_POSTED;
}

/* Its host thread goes its own way: a program's into the program. */
static void tane_go_out(void)
{
	/* The next call begins without a word, and with user memory. */
	current->thread.roams = false;
	tane_set_outside(true);
	tane_vcpu_set(in_user, 1);
}

/* Serve what is posted, and be parked until somebody else enters the CPU. */
static void tane_be_current(struct tane_thread *slot)
{
	if (tane_posted(slot)) {
		current->thread.roams = false;
		tane_set_outside(false);
		if (current->thread.process)
			tane_come_home();
		tane_account();
		tane_request(slot);
	}
	tane_exit_work();
	if (tane_is_away())
		return;

	tane_go_out();
	while (tane_leave(single_task_running() ? TANE_EXIT_USER :
					       TANE_EXIT_RUNNABLE)) {
		/* A call has switched tasks and is complete. */
		tane_vcpu_set(in_user, 0);
		tane_exit_work();
		if (tane_is_away())
			return;
		tane_go_out();
	}
}

/*
 * A host thread's task, outside of its calls. It stays current, parked "in user
 * mode", so that the thread's next call finds it; when somebody else enters the
 * CPU, it makes room for whoever wants to run.
 */
void __noreturn tane_user_mode(void)
{
	struct tane_thread *slot = current->thread.slot;

	local_irq_disable();
	WRITE_ONCE(slot->task, (u64)current);
	tane_begin_task();
	for (;;) {
		if (!IS_ENABLED(CONFIG_TANE_RUN) || tane_enter_window(slot))
			tane_be_current(slot);
		current->thread.roams = true;
		tane_set_away();

		/* Interrupts taken here find the CPU in user mode. */
		local_irq_enable();
		tane_vcpu_set(in_user, 0);
		/* What called its thread in is no reason to stay awake. */
		set_current_state(tane_calls_in() ? TASK_IDLE :
						    TASK_INTERRUPTIBLE);
		if (!tane_posted(slot))
			schedule();
		__set_current_state(TASK_RUNNING);
		local_irq_disable();
	}
}

/* Wake the tasks of the threads that posted a request on this CPU. */
static void tane_take_requests(struct tane_vcpu *vcpu)
{
	struct tane_thread *slot =
		(struct tane_thread *)xchg(&vcpu->requests, 0);

	while (slot) {
		/*
		 * Its host thread may reuse the slot as soon as it is served,
		 * and that may happen on another CPU once it is POSTED.
		 */
		struct tane_thread *next = (struct tane_thread *)slot->next;
		struct task_struct *task;

		rcu_read_lock();
		task = (struct task_struct *)READ_ONCE(slot->task);
		if (task)
			get_task_struct(task);
		rcu_read_unlock();
		/* The link was read before it. */
		smp_store_release(&slot->state, TANE_THREAD_POSTED);
		/* Either we see that the task has ended, or it sees the request. */
		virt_mb();
		if (!READ_ONCE(slot->task))
			tane_answer(slot, -ESRCH);
		else
			wake_up_process(task);
		if (task)
			put_task_struct(task);
		slot = next;
	}
}

/* The request interrupt. The first CPU also does the work of those that went. */
void tane_handle_requests(void)
{
	struct tane_vcpu *vcpu = tane_vcpu();
	unsigned int cpu;

	tane_take_requests(vcpu);
	if (!IS_ENABLED(CONFIG_HOTPLUG_CPU) || vcpu->cpu)
		return;
	for_each_possible_cpu(cpu) {
		vcpu = tane_boot->vcpus + cpu;
		if (!READ_ONCE(vcpu->online) && READ_ONCE(vcpu->requests))
			tane_take_requests(vcpu);
	}
}

/* Leave for the last time: this kernel has ended. */
void __noreturn tane_stop(void)
{
	tane_vcpu_set(irq_enabled, ARCH_IRQ_DISABLED);
	for (;;)
		tane_leave(TANE_EXIT_DEAD);
}

/* End this kernel, and have all who are inside its other CPUs leave. */
void __noreturn tane_dead(u32 code, const char *text)
{
	unsigned int cpu;

	local_irq_disable();
	tane_host(die, code, text, strlen(text), 0);
	for (cpu = 0; cpu < tane_boot->nr_vcpus; cpu++)
		tane_raise(tane_boot->vcpus + cpu, TANE_IRQ_STOP);
	tane_stop();
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the host's threads ask for by message, what such a thread's task does while
 * the thread is elsewhere, and the end.
 */
#include <linux/sched/stat.h>
#include <linux/sched/task.h>
#include <linux/syscalls.h>
#include <asm/machine.h>
#include <asm/program.h>
#include <asm/ptrace.h>
#include "calls.h"
#include "regset.h"
#include "window.h"

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
 * nothing of it may be seen in the program's registers, nor in a signal's frame. All
 * that no call can have are -1 by then, but not in the registers.
 */
static bool tane_is_for_program(struct tane_thread *slot)
{
	return IS_ENABLED(CONFIG_TANE_RUN) && tane_runs_program() &&
	       slot->nr != -1 && current_pt_regs()->orig_rax != slot->nr;
}

static long tane_posted_call(struct tane_thread *slot, bool quiet)
{
	if (IS_ENABLED(CONFIG_TANE_RUN) && !quiet && tane_is_looked_at())
		return tane_call_looked_at();
	return tane_do_call(slot->nr, slot->args);
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
		ret = tane_posted_call(slot, quiet);
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
	tane_tell_traced();
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

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
#include <asm/syscall.h>

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

	return get_signal(&ksig);
}

/* With interrupts off, like the way back to user mode of any architecture. */
static noinline bool tane_exit_work(void)
{
	unsigned long work;
	bool signalled = false;

	while ((work = READ_ONCE(current_thread_info()->flags)) & _TIF_WORK_MASK) {
		local_irq_enable();
		if (work & _TIF_NEED_RESCHED)
			schedule();
		if (work & (_TIF_SIGPENDING | _TIF_NOTIFY_SIGNAL))
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
	struct tane_vcpu *vcpu = tane_vcpu();

	/* Locked on one CPU too: the host sets bits from its other threads. */
	asm volatile("lock orq %1, %0" : "+m" (vcpu->pending)
		     : "r" (BIT_ULL(TANE_IRQ_RESCHEDULE)) : "memory");
}

static bool tane_is_finished(long ret)
{
	return !(READ_ONCE(current_thread_info()->flags) & _TIF_WORK_MASK) &&
	       (unsigned long)ret < (unsigned long)-ERESTART_RESTARTBLOCK;
}

/*
 * Host threads wait for their calls, so one of their tasks is likely to be what
 * wants to run: it has little to do, and waking the service thread for it would
 * cost more. Kernel threads may have much to do; they are the service thread's.
 */
static void tane_let_waiters_run(void)
{
	local_irq_enable();
	sys_sched_yield();
	local_irq_disable();
}

/* Out of line, so that the way past it saves no more registers than it needs. */
static noinline long tane_end_call(long nr, const u64 *args, long ret)
{
	if (!single_task_running() && tane_vcpu_get(waiters))
		tane_let_waiters_run();
	if (!tane_is_finished(ret)) {
		u64 copy[6];

		memcpy(copy, args, sizeof(copy));
		ret = tane_finish_call(nr, copy, ret);
	}
	if (!single_task_running())
		tane_offer_cpu();
	return ret;
}

/*
 * The fast way in (gate.S): current is the caller's task. args lies on the
 * caller's stack, where it stays until the call is complete.
 */
long tane_syscall(long nr, const u64 *args)
{
	long ret;

	local_irq_enable();
	ret = tane_do_call(nr, args);
	local_irq_disable();
	if (likely(tane_is_finished(ret) && single_task_running()))
		return ret;
	return tane_end_call(nr, args, ret);
}

/* Give the result to the host thread by message. */
void tane_complete(long ret)
{
	struct tane_thread *slot = current->thread.slot;

	slot->ret = ret;
	slot->vcpu = tane_vcpu_get(cpu);
	/* The result is there before the state says so. */
	smp_store_release(&slot->state, TANE_THREAD_DONE);
	/* State before sleeping; the host, another CPU even to UP, reversed. */
	virt_mb();
	if (READ_ONCE(slot->sleeping))
		tane_wake(slot);
}

static long tane_attach(struct tane_thread *slot)
{
	struct kernel_clone_args args = {
		.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
			 CLONE_THREAD | CLONE_SYSVSEM,
	};
	long pid;

	current->thread.new_slot = slot;
	pid = kernel_clone(&args);
	current->thread.new_slot = NULL;
	return pid;
}

static void tane_request(struct tane_thread *slot)
{
	long ret;

	switch (slot->nr) {
	case TANE_NR_BOOT:
		ret = 0;
		break;
	case TANE_NR_ATTACH:
		ret = tane_attach((struct tane_thread *)slot->args[0]);
		break;
	case TANE_NR_FAULT:
		local_irq_enable();
		ret = tane_user_fault(slot->args[0], slot->args[1]);
		local_irq_disable();
		break;
	case TANE_NR_DETACH:
		slot->task = 0;
		tane_complete(0);
		local_irq_enable();
		do_exit(0);
	default:
		local_irq_enable();
		ret = tane_do_call(slot->nr, slot->args);
		local_irq_disable();
		ret = tane_finish_call(slot->nr, slot->args, ret);
		break;
	}
	tane_complete(ret);
}

static bool tane_posted(struct tane_thread *slot)
{
	/* The host wrote the request before it. */
	return smp_load_acquire(&slot->state) == TANE_THREAD_POSTED;
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
	for (;;) {
		if (tane_posted(slot))
			tane_request(slot);
		tane_exit_work();

		tane_vcpu_set(in_user, 1);
		while (tane_leave(single_task_running() ? TANE_EXIT_USER :
						       TANE_EXIT_RUNNABLE)) {
			/* A call has switched tasks and is complete. */
			tane_vcpu_set(in_user, 0);
			tane_exit_work();
			tane_vcpu_set(in_user, 1);
		}

		/* Interrupts taken here find the CPU in user mode. */
		local_irq_enable();
		tane_vcpu_set(in_user, 0);
		set_current_state(TASK_INTERRUPTIBLE);
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
		struct task_struct *task = (struct task_struct *)slot->task;

		get_task_struct(task);
		/* The link was read before it. */
		smp_store_release(&slot->state, TANE_THREAD_POSTED);
		wake_up_process(task);
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
		set_bit(TANE_IRQ_STOP,
			(unsigned long *)&tane_boot->vcpus[cpu].pending);
	tane_stop();
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * One kernel, several processes of the host: forks of the one that booted it. All
 * of them have the kernel's memory, at the same addresses; each has its own user
 * memory. A process of the host is a process here, made by NR_FORK before the host's
 * own fork(2), and ended by NR_REAP after its end.
 *
 * Whoever is inside a virtual CPU runs its tasks, but a task that may touch user
 * memory goes on in its own process only: elsewhere it leaves the CPU to its own
 * thread, which is told by its slot.
 */
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/signal.h>
#include <asm/machine.h>
#include <asm/processor.h>

/* No access_ok() is true with this window. */
#define TANE_NO_WINDOW	TASK_SIZE_MAX

static bool tane_is_home(void)
{
	return tane_vcpu_get(holder) >> 32 == current->thread.process;
}

static void tane_want(struct tane_thread *slot)
{
	slot->vcpu = tane_vcpu_get(cpu);
	/* Where, before that it is wanted. */
	smp_store_release(&slot->state, TANE_THREAD_WANTED);
	/* State before sleeping; the host reversed. */
	virt_mb();
	if (READ_ONCE(slot->sleeping))
		tane_wake(slot);
}

/*
 * Called by a task that has just been switched to, and needs its user memory from
 * here on. Meanwhile whoever comes in takes this CPU's interrupts.
 */
void tane_come_home(void)
{
	struct thread_struct *thread = &current->thread;
	struct tane_thread *slot = thread->slot;
	unsigned long flags;
	u32 state;

	if (thread->roams || !slot || tane_is_home())
		return;
	state = slot->state;
	tane_want(slot);
	local_irq_save(flags);
	do {
		tane_leave(TANE_EXIT_ELSEWHERE);
		local_irq_enable();
		local_irq_disable();
	} while (!tane_is_home());
	WRITE_ONCE(slot->state, state);
	if (READ_ONCE(slot->gone)) {
		/* NR_REAP ends it. Who stands in for its process has other memory. */
		thread->window = TANE_NO_WINDOW;
		tane_vcpu_set(window, TANE_NO_WINDOW);
	}
	local_irq_restore(flags);
}

/* A copy of this process, with descriptors of its own. Returns its id. */
long tane_fork(struct tane_thread *slot, u32 process)
{
	struct kernel_clone_args args = {
		.exit_signal = SIGCHLD,
	};
	long pid;

	if (!current->thread.process || !process)
		return -EOPNOTSUPP;
	current->thread.new_slot = slot;
	current->thread.new_window = 0;
	current->thread.new_process = process;
	local_irq_enable();
	pid = kernel_clone(&args);
	local_irq_disable();
	current->thread.new_process = 0;
	current->thread.new_slot = NULL;
	return pid;
}

/* Its end writes to nobody's memory. */
void tane_forget_memory(struct task_struct *task)
{
#ifdef CONFIG_FUTEX
	task->robust_list = NULL;
#endif
	task->clear_child_tid = NULL;
}

static void tane_end(struct task_struct *process, int status)
{
	struct signal_struct *signal = process->signal;
	struct task_struct *task;
	unsigned long flags;

	if (!lock_task_sighand(process, &flags))
		return;
	if (!(signal->flags & SIGNAL_GROUP_EXIT)) {
		signal->flags = SIGNAL_GROUP_EXIT;
		signal->group_exit_code = status;
		signal->group_stop_count = 0;
	}
	for_each_thread(process, task) {
		tane_forget_memory(task);
		if (task->exit_state)
			continue;
		sigaddset(&task->pending.signal, SIGKILL);
		signal_wake_up(task, 1);
	}
	unlock_task_sighand(process, &flags);
}

/* The host process has ended: so does ours, with the same status. */
long tane_reap(u32 process, int status)
{
	struct task_struct *task;

	if (!process || process == tane_boot->shared)
		return -EINVAL;
	local_irq_enable();
	read_lock(&tasklist_lock);
	for_each_process(task) {
		if (task->thread.process == process)
			tane_end(task, status);
	}
	read_unlock(&tasklist_lock);
	local_irq_disable();
	return 0;
}

/* The task of a host thread ends: the thread has none any more, and waits for none. */
void tane_end_slot(struct task_struct *task)
{
	struct tane_thread *slot = task->thread.slot;

	if (!slot)
		return;
	task->thread.slot = NULL;
	WRITE_ONCE(slot->task, 0);
	/* As tane_take_requests() has it the other way round. */
	virt_mb();
	tane_answer(slot, -ESRCH);
}

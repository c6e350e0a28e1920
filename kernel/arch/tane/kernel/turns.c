// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs with regions in common take turns. One that is to go on waits until the
 * other one sleeps, or has had them for a while, and those that have waited longer
 * come first.
 *
 * A program's turn begins when its host thread has seen that it may go on: on a
 * busy host that takes longer than a turn, and longer than others sleep. A call
 * that takes regions before then gives them back when it is over.
 */
#include <linux/hardirq.h>
#include <linux/hrtimer.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/syscalls.h>
#include <asm/machine.h>
#include <asm/mmu_context.h>
#include <asm/program.h>
#include "window.h"

/* So long others wait for a program that computes. */
#define TANE_TURN	(5 * NSEC_PER_MSEC)
/* For one whose threads the host has not run yet, and how often they look. */
#define TANE_PATIENCE	(100 * NSEC_PER_MSEC)
#define TANE_GLANCE	(1 * NSEC_PER_MSEC)

/* Those that wait for theirs, the oldest first. */
static LIST_HEAD(tane_waiters);

struct tane_waiter {
	struct list_head list;
	struct task_struct *task;
	struct mm_struct *mm;
};

/* All that wait for what this one has. */
void tane_wake_waiters(struct mm_struct *mm)
{
	struct tane_waiter *waiter;

	lockdep_assert_held(&tane_window_lock);
	list_for_each_entry(waiter, &tane_waiters, list)
		if (tane_overlap(waiter->mm, mm))
			wake_up_process(waiter->task);
}

static enum tane_doing tane_task_does(struct task_struct *task)
{
	struct thread_struct *thread = &task->thread;
	struct tane_thread *slot = thread->slot;

	if (task_is_running(task) && !thread->away)
		return TANE_COMPUTES;
	if (!thread->outside)
		return TANE_WAITS;
	return slot && READ_ONCE(slot->state) == TANE_THREAD_DONE ?
		       TANE_MAY_GO_ON : TANE_COMPUTES;
}

/* What the busiest of its threads does. */
enum tane_doing tane_does(struct mm_struct *mm)
{
	enum tane_doing most = TANE_WAITS;
	struct task_struct *process, *task;

	rcu_read_lock();
	for_each_process_thread(process, task) {
		if (READ_ONCE(task->mm) != mm)
			continue;
		most = max(most, tane_task_does(task));
		if (most == TANE_COMPUTES)
			goto out;
	}
out:
	rcu_read_unlock();
	return most;
}

/* When this region may be somebody else's, or one is to look again; 0: now. */
static ktime_t tane_turn_ends(struct tane_region *region)
{
	ktime_t now = ktime_get(), ends;

	switch (tane_does(region->shown)) {
	case TANE_WAITS:
		return 0;
	case TANE_MAY_GO_ON:
		region->began = now;
		ends = ktime_add_ns(region->since, TANE_PATIENCE);
		if (ktime_compare(now, ends) >= 0)
			return 0;
		return ktime_add_ns(now, TANE_GLANCE);
	default:
		ends = ktime_add_ns(region->began, TANE_TURN);
		return ktime_compare(now, ends) >= 0 ? 0 : ends;
	}
}

/* When it is this one's turn, which has waited longer than others, or has not. */
static ktime_t tane_turn_begins(const struct tane_waiter *waiter)
{
	struct mm_struct *mm = waiter->mm;
	const struct tane_waiter *other;
	ktime_t begins = 0;
	unsigned int at;

	if (mm->context.shown)
		return 0;
	for_each_set_bit(at, mm->context.claims, TANE_REGIONS) {
		struct tane_region *region = tane_regions + at;

		if (region->shown && region->shown != mm)
			begins = max(begins, tane_turn_ends(region));
	}
	if (begins)
		return begins;
	list_for_each_entry(other, &tane_waiters, list) {
		if (other == waiter)
			break;
		/* It is told, and looks itself. */
		if (other->mm != mm && tane_overlap(other->mm, mm)) {
			wake_up_process(other->task);
			return ktime_add_ns(ktime_get(), TANE_TURN);
		}
	}
	return 0;
}

/* For its program the current task waits until it is its turn. */
static void tane_await_window(struct mm_struct *mm)
{
	struct tane_waiter waiter = { .task = current, .mm = mm };
	unsigned long flags;

	raw_spin_lock_irqsave(&tane_window_lock, flags);
	list_add_tail(&waiter.list, &tane_waiters);
	for (;;) {
		ktime_t begins;

		set_current_state(TASK_IDLE);
		begins = tane_turn_begins(&waiter);
		if (!begins && tane_try_show(mm))
			break;
		if (!begins)
			begins = ktime_add_ns(ktime_get(), TANE_GLANCE);
		raw_spin_unlock_irqrestore(&tane_window_lock, flags);
		schedule_hrtimeout(&begins, HRTIMER_MODE_ABS);
		raw_spin_lock_irqsave(&tane_window_lock, flags);
	}
	__set_current_state(TASK_RUNNING);
	list_del(&waiter.list);
	/* Those of the same program, and who is next. */
	tane_wake_waiters(mm);
	tane_hold(mm);
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

/* The current task's memory, now if it is shown. */
void tane_have_window(struct mm_struct *mm)
{
	unsigned long flags;
	bool shown;

	raw_spin_lock_irqsave(&tane_window_lock, flags);
	shown = mm->context.shown;
	if (shown)
		tane_hold(mm);
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
	if (!shown)
		tane_await_window(mm);
}

/*
 * A host thread's task, outside of its calls, interrupts off. False: it has
 * nothing to do, and what is shown is another's.
 */
bool tane_enter_window(struct tane_thread *slot)
{
	struct mm_struct *mm = current->mm;

	if (!mm || !mm->context.program) {
		current->thread.away = false;
		return true;
	}
	if (!mm->context.shown) {
		/* As tane_posted(). */
		if (smp_load_acquire(&slot->state) != TANE_THREAD_POSTED)
			return false;
	}
	local_irq_enable();
	tane_have_window(mm);
	local_irq_disable();
	return true;
}

/*
 * The end of a call, interrupts on: others run first. What goes on then needs its
 * memory only for its program, and waits for its turn.
 */
void tane_reschedule_program(bool yields)
{
	struct mm_struct *mm = current->mm;

	tane_let_go();
	if (yields)
		sys_sched_yield();
	else
		schedule();
	if (mm && mm->context.program)
		tane_have_window(mm);
	else
		current->thread.away = false;
}

/*
 * The same where the host thread has its answer: it goes its own way, and asks for
 * the window itself. The task is away if it has lost that.
 */
void tane_reschedule_outside(void)
{
	struct mm_struct *mm = current->mm;
	unsigned long flags;

	current->thread.outside = true;
	tane_let_go();
	schedule();
	if (!mm || !mm->context.program) {
		current->thread.away = false;
		return;
	}
	raw_spin_lock_irqsave(&tane_window_lock, flags);
	if (mm->context.shown)
		tane_hold(mm);
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

static void tane_wake_whose_turn_it_is(void)
{
	struct tane_waiter *waiter;
	unsigned long flags;

	raw_spin_lock_irqsave(&tane_window_lock, flags);
	list_for_each_entry(waiter, &tane_waiters, list)
		if (!tane_turn_begins(waiter))
			wake_up_process(waiter->task);
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

/* Nothing to run: it is somebody's turn who waits. True if there is now. */
bool tane_idle_window(void)
{
	if (list_empty(&tane_waiters))
		return false;
	/* As tane_rcu_step(). */
	trace_hardirqs_off();
	irq_enter();
	tane_wake_whose_turn_it_is();
	irq_exit();
	trace_hardirqs_on();
	return need_resched();
}

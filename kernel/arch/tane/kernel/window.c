// SPDX-License-Identifier: GPL-2.0-only
/*
 * The window of programs shows, in each of its regions, one address space at a time,
 * as the translation buffer of a processor does that has no tags. Who goes on, in the
 * kernel or in its program, has all regions shown first where it has memory. Mostly
 * they are already: only a program and what it forked, and programs of fixed
 * addresses, have regions in common. Whose one was has no thread in its program's
 * code then, and asks for the window with what it asks next.
 *
 * A call that goes on takes what it needs at once. A program that is to go on waits
 * for its turn (turns.c). Only a task that waits so, or for its host thread (away),
 * runs while another's memory is shown.
 *
 * On several CPUs nothing is taken from a task that is inside another one (here):
 * it is waited until that one has switched to another task. One that is parked
 * there while its program computes is asked to make room.
 */
#include <linux/hrtimer.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <asm/machine.h>
#include <asm/mmu_context.h>
#include <asm/program.h>
#include <asm/smp.h>
#include "window.h"

/* So often who waits for a task inside another CPU looks. */
#define TANE_BLINK	(100 * NSEC_PER_USEC)

DEFINE_RAW_SPINLOCK(tane_window_lock);

/* Whose window was taken before it had anything of it. */
static struct mm_struct *tane_owed;

/* Whose memory the task that is inside this CPU may touch. */
static DEFINE_PER_CPU(struct mm_struct *, tane_here);

/* No host thread is in the code of this program, until the kernel lets it again. */
static void tane_stop_program(struct mm_struct *mm)
{
	struct task_struct *process, *task;
	int wait;

	rcu_read_lock();
	for (wait = 0; wait < 2; wait++) {
		for_each_process_thread(process, task) {
			if (READ_ONCE(task->mm) != mm || !task->thread.slot ||
			    !task->thread.outside)
				continue;
			tane_host(stop, task->thread.slot, wait, 0, 0);
		}
	}
	rcu_read_unlock();
}

#ifdef CONFIG_SMP
/* Whether a task inside another CPU may touch its memory; if so, that is to end. */
static bool tane_is_held(struct mm_struct *mm)
{
	int cpu, this_cpu = smp_processor_id();

	for_each_online_cpu(cpu) {
		if (cpu == this_cpu)
			continue;
		/* As tane_leave_window() has it. */
		if (smp_load_acquire(per_cpu_ptr(&tane_here, cpu)) != mm)
			continue;
		if (READ_ONCE(tane_boot->vcpus[cpu].in_user))
			arch_smp_send_reschedule(cpu);
		return true;
	}
	return false;
}
#else
static bool tane_is_held(struct mm_struct *mm)
{
	return false;
}
#endif

/* Have the window show it. False: somebody else's cannot be taken away now. */
bool tane_try_show(struct mm_struct *mm)
{
	ktime_t now = ktime_get();
	unsigned int at;

	lockdep_assert_held(&tane_window_lock);
	if (mm->context.shown)
		return true;
	for_each_set_bit(at, mm->context.claims, TANE_REGIONS) {
		struct mm_struct *prev = tane_regions[at].shown;

		if (prev && prev != mm && tane_is_held(prev))
			return false;
	}
	for_each_set_bit(at, mm->context.claims, TANE_REGIONS) {
		struct tane_region *region = tane_regions + at;
		struct mm_struct *prev = region->shown;

		if (prev == mm)
			continue;
		if (prev && prev->context.shown) {
			tane_stop_program(prev);
			prev->context.shown = false;
		}
		region->shown = mm;
		region->since = now;
		region->began = now;
		tane_show_region(at, prev, mm);
	}
	mm->context.shown = true;
	if (tane_owed == mm)
		tane_owed = NULL;
	return true;
}

/* It is the current task's, which may touch it from here on. */
void tane_hold(struct mm_struct *mm)
{
	current->thread.away = false;
	__this_cpu_write(tane_here, mm);
}

/* The current task does without its memory. */
void tane_let_go(void)
{
	current->thread.away = true;
	tane_leave_window();
}

/* The same, of a task that is switched from. */
void tane_leave_window(void)
{
	/* All that it has done with it is done. */
	smp_store_release(this_cpu_ptr(&tane_here), NULL);
}

/* The address space ends. */
void tane_exit_mmap(struct mm_struct *mm)
{
	unsigned long flags;

	if (!mm->context.program)
		return;
	raw_spin_lock_irqsave(&tane_window_lock, flags);
	if (tane_owed == mm)
		tane_owed = NULL;
	tane_wake_waiters(mm);
	tane_give_claims(mm);
	if (__this_cpu_read(tane_here) == mm)
		tane_leave_window();
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

/* Whoever has its regions has not yet had anything of them, and gets them back. */
static void tane_owe(struct mm_struct *mm)
{
	unsigned int at;

	for_each_set_bit(at, mm->context.claims, TANE_REGIONS) {
		struct mm_struct *prev = tane_regions[at].shown;

		if (prev && prev != mm && tane_does(prev) == TANE_MAY_GO_ON)
			tane_owed = prev;
	}
}

/*
 * Who has what the current task needs is inside another CPU. This may be the end of
 * schedule(), which may be called again there.
 */
static void tane_look_again_later(void)
{
	bool counted = preempt_count();
	ktime_t later = TANE_BLINK;

	if (counted)
		preempt_enable_no_resched();
	set_current_state(TASK_IDLE);
	schedule_hrtimeout(&later, HRTIMER_MODE_REL);
	if (counted)
		preempt_disable();
}

/*
 * Called by a task that has just been switched to, and is not away, or that needs
 * another region: in the middle of its call.
 */
void tane_take_window(struct mm_struct *mm)
{
	unsigned long flags;

	for (;;) {
		raw_spin_lock_irqsave(&tane_window_lock, flags);
		if (!mm->context.shown)
			tane_owe(mm);
		if (tane_try_show(mm))
			break;
		tane_let_go();
		raw_spin_unlock_irqrestore(&tane_window_lock, flags);
		tane_look_again_later();
	}
	tane_hold(mm);
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

/* execve(): the new address space is the one to show. */
void tane_enter_program(struct mm_struct *mm)
{
	unsigned long flags;

	tane_claim_home(mm);
	raw_spin_lock_irqsave(&tane_window_lock, flags);
	mm->context.program = true;
	/* If another one has its home there, flush_thread() waits for that. */
	if (tane_try_show(mm))
		tane_hold(mm);
	else
		tane_leave_window();
	raw_spin_unlock_irqrestore(&tane_window_lock, flags);
}

/* The end of a call that may have taken the window, interrupts off. */
void tane_return_window(void)
{
	struct mm_struct *mm = current->mm, *owed;
	bool given = false;

	if (!READ_ONCE(tane_owed) || !mm || !mm->context.program)
		return;
	raw_spin_lock(&tane_window_lock);
	owed = tane_owed;
	if (owed && owed != mm && tane_overlap(owed, mm)) {
		tane_owed = NULL;
		given = tane_does(owed) == TANE_MAY_GO_ON;
	}
	if (given) {
		tane_let_go();
		tane_try_show(owed);
	}
	raw_spin_unlock(&tane_window_lock);
	if (!given)
		return;
	local_irq_enable();
	tane_have_window(mm);
	local_irq_disable();
}

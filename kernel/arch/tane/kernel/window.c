// SPDX-License-Identifier: GPL-2.0-only
/*
 * The window of programs shows one address space at a time, as the translation
 * buffer of a processor does that has no tags. Who goes on with another one, in
 * the kernel or in its program, has that shown first: whose it was has no thread
 * in its program's code then, and asks for the window with what it asks next.
 *
 * A call that goes on takes the window at once. A program that is to go on waits
 * until the other one sleeps, or has had it for a while. Only a task that waits
 * so, or for its host thread (away), runs while another's memory is shown.
 */
#include <linux/hardirq.h>
#include <linux/hrtimer.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>
#include <asm/machine.h>
#include <asm/mmu_context.h>
#include <asm/program.h>

/* So long others wait for a program that computes. */
#define TANE_TURN	(5 * NSEC_PER_MSEC)

/* Whose memory is shown, and since when. */
static struct mm_struct *tane_shown;
static ktime_t tane_since;

static DECLARE_WAIT_QUEUE_HEAD(tane_window_wait);

struct mm_struct *tane_window(void)
{
	return READ_ONCE(tane_shown);
}

void tane_show_window(struct mm_struct *mm)
{
	struct mm_struct *prev = tane_shown;

	if (prev == mm)
		return;
	WRITE_ONCE(tane_shown, mm);
	tane_since = ktime_get();
	tane_show_program(prev, mm);
}

/* The address space ends. */
void tane_exit_mmap(struct mm_struct *mm)
{
	if (tane_window() != mm)
		return;
	tane_show_window(NULL);
	wake_up(&tane_window_wait);
}

/* Whether one of its threads is in the program, on its way there, or in a call. */
static bool tane_computes(struct mm_struct *mm)
{
	struct task_struct *process, *task;
	bool found = false;

	rcu_read_lock();
	for_each_process_thread(process, task) {
		if (READ_ONCE(task->mm) == mm &&
		    (task->thread.outside ||
		     (task_is_running(task) && !task->thread.away))) {
			found = true;
			goto out;
		}
	}
out:
	rcu_read_unlock();
	return found;
}

static ktime_t tane_turn_ends(void)
{
	return ktime_add_ns(tane_since, TANE_TURN);
}

static bool tane_window_is_free(void)
{
	struct mm_struct *mm = tane_window();

	return !mm || !tane_computes(mm) ||
	       ktime_compare(ktime_get(), tane_turn_ends()) >= 0;
}

static void tane_await_window(struct mm_struct *mm)
{
	DEFINE_WAIT(wait);

	for (;;) {
		ktime_t ends;

		prepare_to_wait_exclusive(&tane_window_wait, &wait, TASK_IDLE);
		if (mm->context.shown || tane_window_is_free())
			break;
		ends = tane_turn_ends();
		schedule_hrtimeout(&ends, HRTIMER_MODE_ABS);
	}
	finish_wait(&tane_window_wait, &wait);
	tane_show_window(mm);
	/* Those of the same program. */
	if (atomic_read(&mm->mm_users) > 1)
		wake_up_all(&tane_window_wait);
}

/*
 * A host thread's task, outside of its calls, interrupts off. False: it has
 * nothing to do, and what is shown is another's.
 */
bool tane_enter_window(struct tane_thread *slot)
{
	struct thread_struct *thread = &current->thread;
	struct mm_struct *mm = current->mm;

	if (mm && mm->context.program && !mm->context.shown) {
		/* As tane_posted(). */
		if (smp_load_acquire(&slot->state) != TANE_THREAD_POSTED)
			return false;
		local_irq_enable();
		tane_await_window(mm);
		local_irq_disable();
	}
	thread->away = false;
	return true;
}

/* Called by a task that has just been switched to, and is not away. */
void tane_take_window(struct mm_struct *mm)
{
	unsigned long flags;

	local_irq_save(flags);
	tane_show_window(mm);
	local_irq_restore(flags);
}

/* Nothing to run: it is somebody's turn who waits. True if there is now. */
bool tane_idle_window(void)
{
	/* On the one CPU there is: who waits has been seen to. */
	if (!waitqueue_active(&tane_window_wait))
		return false;
	/* As tane_rcu_step(). */
	trace_hardirqs_off();
	irq_enter();
	if (tane_window_is_free())
		wake_up(&tane_window_wait);
	irq_exit();
	trace_hardirqs_on();
	return need_resched();
}

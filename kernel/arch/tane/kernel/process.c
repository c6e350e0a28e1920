// SPDX-License-Identifier: GPL-2.0-only
/* Tasks are coroutines: a kernel stack each, and who calls decides who runs. */
#include <linux/cpu.h>
#include <linux/hardirq.h>
#include <linux/ptrace.h>
#include <linux/reboot.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <asm/machine.h>
#include <asm/program.h>
#include <asm/switch_to.h>

struct task_struct *__switch_to(struct task_struct *prev,
				struct task_struct *next)
{
	tane_vcpu_set(switches, tane_vcpu_get(switches) + 1);
	tane_vcpu_set(current_task, (u64)next);
	tane_vcpu_set(window, next->thread.window);
#ifdef CONFIG_TANE_RUN
	if (tane_vcpu_get(in_user))
		prev->thread.outside = false;
	tane_leave_window();
#endif
	/* A call by the fast way may sleep; who goes on instead is in the kernel. */
	tane_vcpu_set(in_user, 0);
	return tane_switch_stacks(&prev->thread.sp, next->thread.sp, prev);
}

struct tane_frame *tane_park(struct task_struct *task, void (*resume)(void))
{
	unsigned long top = (unsigned long)task_pt_regs(task) & ~15UL;
	struct tane_frame *frame = (struct tane_frame *)top - 1;

	memset(frame, 0, sizeof(*frame));
	frame->ret = (unsigned long)resume;
	task->thread.sp = (unsigned long)frame;
	return frame;
}

int copy_thread(struct task_struct *p, const struct kernel_clone_args *args)
{
	struct tane_frame *frame;

	/* It would need memory of its process, and nobody would come for it. */
	if (current->thread.process && args->user_worker)
		return -EOPNOTSUPP;
	/* Only a thread of the host can be a user thread. */
	if (!args->fn && !current->thread.new_slot && !tane_runs_program())
		return -ENOSYS;

	memset(&p->thread, 0, sizeof(p->thread));
	p->thread.slot = args->fn ? NULL : current->thread.new_slot;
	if (p->thread.slot) {
		p->thread.slot->task = (u64)p;
		p->thread.window = current->thread.new_window;
		p->thread.process = current->thread.new_process ?:
				    current->thread.process;
		p->thread.roams = true;
	}

	if (IS_ENABLED(CONFIG_TANE_RUN) && !args->fn && tane_runs_program()) {
		int error = tane_copy_program(p, args);

		if (error)
			return error;
	}

	frame = tane_park(p, tane_ret_from_fork);
	frame->rbx = (unsigned long)args->fn;
	frame->r12 = (unsigned long)args->fn_arg;
	return 0;
}

#ifndef CONFIG_TANE_RUN
/* A host thread's registers are not here, so a tracer can only wait. */
long arch_ptrace(struct task_struct *child, long request, unsigned long addr,
		 unsigned long data)
{
	return ptrace_request(child, request, addr, data);
}

void ptrace_disable(struct task_struct *child)
{
}

/* Of a host thread that waits for an answer. */
void exit_thread(struct task_struct *task)
{
	tane_end_slot(task);
}

void flush_thread(void)
{
}

void start_thread(struct pt_regs *regs, unsigned long pc, unsigned long sp)
{
}
#endif

unsigned long __get_wchan(struct task_struct *task)
{
	return 0;
}

/*
 * RCU goes one step on at each tick, and a grace period takes several: 30 ms and
 * more, and a mount waits for some of them in turn. A CPU that has nothing else
 * to do takes the step at once. True if that gave it something to do.
 */
static bool tane_rcu_step(void)
{
	if (!rcu_needs_cpu())
		return false;
	/* Idle has told lockdep that interrupts are on; this is like one. */
	trace_hardirqs_off();
	irq_enter();
	rcu_sched_clock_irq(0);
	irq_exit();
	trace_hardirqs_on();
	return need_resched();
}

/* Nothing to run: the host thread goes home, this frame stays. */
void arch_cpu_idle(void)
{
	if (IS_ENABLED(CONFIG_TANE_RUN) && tane_idle_window())
		return;
	if (!tane_vcpu_get(pending) && !tane_rcu_step())
		tane_leave(TANE_EXIT_IDLE);
}

void machine_halt(void)
{
	tane_dead(0, "halted");
}

void machine_power_off(void)
{
	tane_dead(0, "powered off");
}

void machine_restart(char *command)
{
	tane_dead(0, "restarted");
}

void (*pm_power_off)(void);

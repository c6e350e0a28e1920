// SPDX-License-Identifier: GPL-2.0-only
/*
 * Without frame pointers every text address on the stack is a candidate, marked
 * with "?"; with them the chain is followed.
 */
#include <linux/kallsyms.h>
#include <linux/sched.h>
#include <linux/sched/debug.h>
#include <linux/sched/task_stack.h>
#include <linux/stacktrace.h>
#include <asm/sections.h>

static unsigned long *tane_stack_of(struct task_struct *task)
{
	if (task && task != current)
		return (unsigned long *)task->thread.sp;
	return __builtin_frame_address(0);
}

/* Calls fn for each return address; stops when it returns false. */
static void tane_walk(struct task_struct *task, unsigned long *sp,
		      bool (*fn)(void *data, unsigned long address), void *data)
{
	unsigned long *top;

	task = task ?: current;
	if (!try_get_task_stack(task))
		return;
	top = (unsigned long *)(task_stack_page(task) + THREAD_SIZE);
	if (sp >= (unsigned long *)task_stack_page(task)) {
		for (; sp < top; sp++) {
			unsigned long address = READ_ONCE_NOCHECK(*sp);

			if (__kernel_text_address(address) && !fn(data, address))
				break;
		}
	}
	put_task_stack(task);
}

static bool tane_print_address(void *loglvl, unsigned long address)
{
	printk("%s ? %pB\n", (char *)loglvl, (void *)address);
	return true;
}

void show_stack(struct task_struct *task, unsigned long *sp, const char *loglvl)
{
	printk("%sCall Trace:\n", loglvl);
	tane_walk(task, sp ?: tane_stack_of(task), tane_print_address,
		  (void *)loglvl);
}

static bool tane_save_address(void *data, unsigned long address)
{
	struct stack_trace *trace = data;

	if (trace->skip > 0)
		trace->skip--;
	else
		trace->entries[trace->nr_entries++] = address;
	return trace->nr_entries < trace->max_entries;
}

void save_stack_trace(struct stack_trace *trace)
{
	tane_walk(current, tane_stack_of(current), tane_save_address, trace);
}
EXPORT_SYMBOL_GPL(save_stack_trace);

void save_stack_trace_tsk(struct task_struct *task, struct stack_trace *trace)
{
	tane_walk(task, tane_stack_of(task), tane_save_address, trace);
}
EXPORT_SYMBOL_GPL(save_stack_trace_tsk);

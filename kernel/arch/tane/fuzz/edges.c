// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which ways through the code of file systems a task took.
 *
 * The compiler puts a call of __sanitizer_cov_trace_pc() at the start of each basic block
 * (see arch/tane/Makefile). A way from one block to the next is a byte of a table,
 * which counts, so that going back to a checkpoint sets it to what it was then.
 */
#include <linux/hash.h>
#include <linux/module.h>
#include <linux/preempt.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include <asm/sections.h>

#include "edges.h"

#define EDGES	(1UL << 16)

static u8 edges[EDGES];
static struct task_struct *traced;
static unsigned long last;

notrace void __sanitizer_cov_trace_pc(void)
{
	unsigned long block, edge;

	/* Interrupts take other ways each time. */
	if (READ_ONCE(traced) != current || !in_task())
		return;
	/* Wherever the image was loaded. */
	block = hash_long(_RET_IP_ - (unsigned long)_text, 16);
	edge = block ^ last;
	last = block >> 1;
	if (edges[edge] != U8_MAX)
		edges[edge]++;
}
EXPORT_SYMBOL(__sanitizer_cov_trace_pc);

/* Count what the writing task does from now on, and nothing before. */
static ssize_t edges_write(struct file *file, const char __user *from,
			   size_t len, loff_t *pos)
{
	memset(edges, 0, sizeof(edges));
	last = 0;
	WRITE_ONCE(traced, current);
	return len;
}

/* Counting ends with the first byte that is read: reading goes through this code too. */
static ssize_t edges_read(struct file *file, char __user *to, size_t len,
			  loff_t *pos)
{
	WRITE_ONCE(traced, NULL);
	return simple_read_from_buffer(to, len, pos, edges, sizeof(edges));
}

static const struct proc_ops edges_ops = {
	.proc_write	= edges_write,
	.proc_read	= edges_read,
	.proc_lseek	= default_llseek,
};

static int __init edges_init(void)
{
	return proc_create("tane-edges", 0600, NULL, &edges_ops) ? 0 : -ENOMEM;
}
late_initcall(edges_init);

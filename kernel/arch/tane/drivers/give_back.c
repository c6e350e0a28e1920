// SPDX-License-Identifier: GPL-2.0-only
/*
 * Free memory goes back to the host: Linux reports what has been free for some
 * seconds, in pieces that are worth a call, and all of it when somebody writes
 * to /proc/tane-trim. The host makes holes of it, which read as zero.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/page_reporting.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/scatterlist.h>
#include <linux/swap.h>
#include <linux/workqueue.h>
#include <asm/machine.h>

#include "give_back.h"

/*
 * 64 KiB: what is given back costs a fault for each page when it is used next,
 * which what is free in smaller pieces soon will be.
 */
#define ORDER	4

static int give_back(struct page_reporting_dev_info *dev, struct scatterlist *sgl,
		     unsigned int count)
{
	struct scatterlist *sg;
	unsigned int i;
	int error;

	for_each_sg(sgl, sg, count, i) {
		error = tane_host(discard, page_to_phys(sg_page(sg)), sg->length, 0, 0);
		if (error)
			return error;
	}
	return 0;
}

static struct page_reporting_dev_info reporting = {
	.report	= give_back,
	.order	= ORDER,
};

/* One trim at a time: it changes the order. */
static DEFINE_MUTEX(trim_mutex);

/* All that is free now, down to single pages, without waiting for more. */
static void trim(void)
{
	mutex_lock(&trim_mutex);
	/* Pages that each CPU keeps for itself are free, too. */
	drain_all_pages(NULL);
	WRITE_ONCE(page_reporting_order, 0);
	do {
		mod_delayed_work(system_freezable_wq, &reporting.work, 0);
		flush_delayed_work(&reporting.work);
		/* It does a part of each list at a time, and says if there is more. */
	} while (atomic_read(&reporting.state) && !signal_pending(current));
	WRITE_ONCE(page_reporting_order, ORDER);
	mutex_unlock(&trim_mutex);
}

static ssize_t trim_write(struct file *file, const char __user *from, size_t len,
			  loff_t *pos)
{
	trim();
	return len;
}

static const struct proc_ops trim_ops = {
	.proc_write	= trim_write,
	.proc_lseek	= noop_llseek,
};

static int __init give_back_init(void)
{
	int error = page_reporting_register(&reporting);

	if (error)
		return error;
	return proc_create("tane-trim", 0200, NULL, &trim_ops) ? 0 : -ENOMEM;
}
late_initcall(give_back_init);

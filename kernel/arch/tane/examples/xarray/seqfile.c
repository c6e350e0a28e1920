// SPDX-License-Identifier: GPL-2.0-only
/*
 * An array shown by a file, /proc/tane-xarray: a line for each entry, however
 * many there are, whatever is stored and erased while somebody reads.
 *
 * Write "store FIRST COUNT" or "erase FIRST COUNT" to have something there.
 * A line has an index and the entry's value, which is what the index was then.
 */
#include <linux/init.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#define MOST	65536UL

static DEFINE_XARRAY(shown);

struct cursor {
	struct xa_state xas;
	void *entry;
};

/*
 * The position in the file is the index that comes next. It is all that is
 * kept from one read(2) to the next: no lock is held and no node is known, so
 * it does not matter what went meanwhile.
 *
 * seq_file is given the cursor and not the entry: a large number is an entry
 * that IS_ERR() takes for an error.
 */
static void *next_entry(struct cursor *c, loff_t *pos)
{
	do {
		c->entry = xas_find(&c->xas, LONG_MAX);
	} while (xas_retry(&c->xas, c->entry));
	if (!c->entry)
		return NULL;
	*pos = c->xas.xa_index;
	return c;
}

static void *shown_start(struct seq_file *m, loff_t *pos)
	__acquires(RCU)
{
	struct cursor *c = m->private;

	rcu_read_lock();
	xas_set(&c->xas, *pos);
	return next_entry(c, pos);
}

static void *shown_next(struct seq_file *m, void *cursor, loff_t *pos)
{
	/* Behind the last one too, or a read(2) would show it once more. */
	++*pos;
	return next_entry(cursor, pos);
}

static void shown_stop(struct seq_file *m, void *cursor)
	__releases(RCU)
{
	rcu_read_unlock();
}

static int shown_show(struct seq_file *m, void *cursor)
{
	struct cursor *c = cursor;

	/* What is reserved is not yet there. */
	if (xa_is_zero(c->entry))
		return SEQ_SKIP;
	seq_printf(m, "%lu %lu\n", c->xas.xa_index, xa_to_value(c->entry));
	return 0;
}

static const struct seq_operations shown_ops = {
	.start	= shown_start,
	.next	= shown_next,
	.stop	= shown_stop,
	.show	= shown_show,
};

static int shown_open(struct inode *inode, struct file *file)
{
	struct cursor *c;

	c = __seq_open_private(file, &shown_ops, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->xas = (struct xa_state)__XA_STATE(&shown, 0, 0, 0);
	return 0;
}

static ssize_t shown_write(struct file *file, const char __user *from,
			   size_t len, loff_t *pos)
{
	unsigned long first, count, index;
	char request[64], verb[8];
	int error = 0;

	if (len >= sizeof(request))
		return -EINVAL;
	if (copy_from_user(request, from, len))
		return -EFAULT;
	request[len] = '\0';
	if (sscanf(request, "%7s %lu %lu", verb, &first, &count) != 3 ||
	    !count || count > MOST || first > LONG_MAX - count)
		return -EINVAL;
	if (strcmp(verb, "store") && strcmp(verb, "erase"))
		return -EINVAL;

	for (index = first; index < first + count && !error; index++) {
		if (verb[0] == 's')
			error = xa_err(xa_store(&shown, index,
						xa_mk_value(index), GFP_KERNEL));
		else
			xa_erase(&shown, index);
		cond_resched();
	}
	return error ?: len;
}

static const struct proc_ops shown_proc_ops = {
	.proc_open	= shown_open,
	.proc_read_iter	= seq_read_iter,
	.proc_write	= shown_write,
	.proc_lseek	= seq_lseek,
	.proc_release	= seq_release_private,
};

static int __init shown_init(void)
{
	if (!proc_create("tane-xarray", 0600, NULL, &shown_proc_ops))
		return -ENOMEM;
	return 0;
}
late_initcall(shown_init);

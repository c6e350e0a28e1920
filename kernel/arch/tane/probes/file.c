// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/tane-probes: how long it takes to find one of many probes.
 *
 * Write "STRUCTURE COUNT", then read from the same open file: one part a line,
 * the nanoseconds that it took in all, and how many it were.
 *
 *	STRUCTURE	table64 (what Linux has), table512, xarray-address,
 *			xarray (by the distance from the text's start),
 *			xarray-cache (with 64 sets of four on each CPU before
 *			it), rhashtable
 *	COUNT		of probes, 1 to 32768
 *
 *	register	one by one, each after a look whether one is there
 *	uniform		look-ups of any probe, the least of three turns
 *	miss		of addresses between those of probes
 *	hot		of sixteen probes
 *	during		of those that stay, while another CPU takes every second
 *			probe out and in; and how often it did. 0 0 0 where
 *			there is one CPU
 *	unregister	one by one, and one grace period
 *	memory		bytes, with the heads that are in probes, and of how many
 */
#include <linux/init.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "probes.h"

static const struct structure * const structures[] = {
	&table64, &table512, &by_address, &by_offset, &cached, &rhash,
};

/* One after the other, or they would measure each other. */
static DEFINE_MUTEX(file_mutex);

static char *answer(const struct result *r, unsigned int count)
{
	return kasprintf(GFP_KERNEL,
			 "register %llu %u\nuniform %llu %u\nmiss %llu %u\n"
			 "hot %llu %u\nduring %llu %u %u\nunregister %llu %u\n"
			 "memory %zu %u\n",
			 r->register_ns, count, r->uniform_ns, r->uniform,
			 r->miss_ns, r->miss, r->hot_ns, r->hot, r->during_ns,
			 r->during, r->meanwhile, r->unregister_ns, count,
			 r->bytes, count);
}

static ssize_t probes_write(struct file *file, const char __user *from,
			    size_t len, loff_t *pos)
{
	char request[64], name[16];
	struct result r = {};
	unsigned int count, i;
	char *text;
	int error;

	if (len >= sizeof(request))
		return -EINVAL;
	if (copy_from_user(request, from, len))
		return -EFAULT;
	request[len] = '\0';
	if (sscanf(request, "%15s %u", name, &count) != 2 || !count ||
	    count > MOST_PROBES)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(structures); i++)
		if (!strcmp(name, structures[i]->name))
			break;
	if (i == ARRAY_SIZE(structures))
		return -EINVAL;

	error = mutex_lock_interruptible(&file_mutex);
	if (error)
		return error;
	error = measure(structures[i], count, &r);
	mutex_unlock(&file_mutex);
	if (error)
		return error;
	text = answer(&r, count);
	if (!text)
		return -ENOMEM;
	kfree(xchg(&file->private_data, text));
	*pos = 0;
	return len;
}

ssize_t answer_read(struct file *file, char __user *to, size_t len, loff_t *pos)
{
	const char *text = file->private_data;

	if (!text)
		return 0;
	return simple_read_from_buffer(to, len, pos, text, strlen(text));
}

int answer_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

static const struct proc_ops probes_ops = {
	.proc_read	= answer_read,
	.proc_write	= probes_write,
	.proc_lseek	= default_llseek,
	.proc_release	= answer_release,
};

static int __init probes_init(void)
{
	if (!proc_create("tane-probes", 0600, NULL, &probes_ops))
		return -ENOMEM;
	return 0;
}
late_initcall(probes_init);

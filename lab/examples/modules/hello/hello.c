// SPDX-License-Identifier: GPL-2.0-only
/* A module that greets, and /proc/hello, which counts who has read it. */
#include <linux/init.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>

static char *who = "world";
module_param(who, charp, 0444);
MODULE_PARM_DESC(who, "who is greeted");

static int fails __initdata;
module_param(fails, int, 0);
MODULE_PARM_DESC(fails, "the error with which it does not load");

static DEFINE_PER_CPU(unsigned long, hello_reads);

static noinline __noclone unsigned long hello_count(unsigned long more)
{
	unsigned long count = 0;
	int cpu;

	this_cpu_add(hello_reads, more);
	for_each_possible_cpu(cpu)
		count += per_cpu(hello_reads, cpu);
	return count;
}

static int hello_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "hello, %s, for the %lu. time\n", who, hello_count(1));
	return 0;
}

static int __init hello_init(void)
{
	if (fails)
		return -fails;
	if (!proc_create_single("hello", 0444, NULL, hello_show))
		return -ENOMEM;
	pr_info("hello, %s\n", who);
	return 0;
}

static void __exit hello_exit(void)
{
	remove_proc_entry("hello", NULL);
	pr_info("goodbye, %s\n", who);
}

module_init(hello_init);
module_exit(hello_exit);
MODULE_DESCRIPTION("An example of a module that is built out of the tree");
MODULE_LICENSE("GPL");

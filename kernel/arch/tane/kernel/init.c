// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host process is process 1. Linux insists on executing a program for it,
 * so there is one: a few magic bytes at /init, which only the loader below
 * accepts, once, and whose text is the host program that already runs.
 */
#include <linux/binfmts.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>
#include <asm/machine.h>

static const char tane_magic[] = "\x7fthe host process\n";

static struct linux_binfmt tane_format;

static int tane_load_binary(struct linux_binprm *bprm)
{
	int error;

	if (!is_global_init(current) ||
	    memcmp(bprm->buf, tane_magic, sizeof(tane_magic) - 1))
		return -ENOEXEC;

	error = begin_new_exec(bprm);
	if (error)
		return error;
	setup_new_exec(bprm);
	error = setup_arg_pages(bprm, STACK_TOP, EXSTACK_DEFAULT);
	if (error)
		return error;
	set_binfmt(&tane_format);
	current->mm->context.shown = true;
	current->thread.slot = tane_boot->init_thread;
	current->thread.process = tane_boot->shared;
	current->thread.roams = true;
	/* No signal ends process 1; its copies are to get EPIPE like it. */
	if (tane_boot->shared)
		kernel_sigaction(SIGPIPE, SIG_IGN);
	finalize_exec(bprm);
	return 0;
}

static struct linux_binfmt tane_format = {
	.load_binary	= tane_load_binary,
};

static int __init tane_make_init(void)
{
	struct file *file;
	loff_t pos = 0;
	ssize_t len;

	register_binfmt(&tane_format);
	file = filp_open("/init", O_WRONLY | O_CREAT | O_TRUNC, 0500);
	if (IS_ERR(file))
		return PTR_ERR(file);
	len = kernel_write(file, tane_magic, sizeof(tane_magic) - 1, &pos);
	/* At once: a file still open for writing cannot be executed. */
	__fput_sync(file);
	return len < 0 ? len : 0;
}
late_initcall_sync(tane_make_init);

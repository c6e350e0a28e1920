// SPDX-License-Identifier: GPL-2.0-only
/* Oopses and panics: they end this kernel, never the process around it. */
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/panic_notifier.h>
#include <linux/reboot.h>
#include <linux/sched/debug.h>
#include <linux/sched/task_stack.h>
#include <linux/ptrace.h>
#include <linux/signal.h>
#include <asm/machine.h>
#include <asm/setup.h>
#ifdef CONFIG_TANE_LAB
#include <asm/code.h>
#endif

void show_regs(struct pt_regs *regs)
{
	show_regs_print_info(KERN_DEFAULT);
	pr_info("RIP: %pS (offset %lx)\n", (void *)regs->rip, __pa(regs->rip));
	pr_info("RSP: %016lx EFLAGS: %08lx\n", regs->rsp, regs->eflags);
	pr_info("RAX: %016lx RBX: %016lx RCX: %016lx\n",
		regs->rax, regs->rbx, regs->rcx);
	pr_info("RDX: %016lx RSI: %016lx RDI: %016lx\n",
		regs->rdx, regs->rsi, regs->rdi);
	pr_info("RBP: %016lx R08: %016lx R09: %016lx\n",
		regs->rbp, regs->r8, regs->r9);
	pr_info("R10: %016lx R11: %016lx R12: %016lx\n",
		regs->r10, regs->r11, regs->r12);
	pr_info("R13: %016lx R14: %016lx R15: %016lx\n",
		regs->r13, regs->r14, regs->r15);
	show_stack(NULL, (unsigned long *)regs->rsp, KERN_DEFAULT);
}

void tane_oops(struct pt_regs *regs, const char *what, unsigned long address)
{
	static atomic_t depth;

	/* What an oops prints may itself be broken: say less, but end. */
	if (atomic_inc_return(&depth) > 1)
		tane_dead(1, depth.counter > 2 ? "oops in an oops in an oops" :
						 "oops in an oops");
	oops_enter();
	console_verbose();
	bust_spinlocks(1);
	pr_emerg("Oops: %s at %016lx\n", what, address);
	show_regs(regs);
	bust_spinlocks(0);
	oops_exit();
	panic("%s at %016lx in %pS", what, address, (void *)regs->rip);
}

/* SIGILL, SIGFPE, SIGTRAP in the kernel. */
void tane_invalid(struct pt_regs *regs, unsigned long signal)
{
#ifdef CONFIG_TANE_LAB
	if (signal == SIGTRAP && tane_breakpoint(regs))
		return;
#endif
	local_irq_disable();
	tane_oops(regs, signal == SIGFPE ? "division error" : "invalid opcode",
		  regs->rip);
}

NOKPROBE_SYMBOL(tane_invalid);

static int tane_panic(struct notifier_block *self, unsigned long event,
		      void *text)
{
	tane_dead(1, text);
}

static struct notifier_block tane_panic_block = {
	.notifier_call	= tane_panic,
	.priority	= INT_MIN,
};

/* Early: a panic that nobody hears of waits in a loop for somebody to reset it. */
void __init tane_init_panic(void)
{
	atomic_notifier_chain_register(&panic_notifier_list, &tane_panic_block);
}

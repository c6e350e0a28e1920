// SPDX-License-Identifier: GPL-2.0-only
/* Returns of functions go through rethook_trampoline.S. */
#include <linux/kprobes.h>
#include <linux/ptrace.h>
#include <linux/rethook.h>

void tane_rethook_return(struct pt_regs *regs);

/* Called by the trampoline, with the word that it will return to behind regs. */
void tane_rethook_return(struct pt_regs *regs)
{
	regs->cs = __KERNEL_CS;
	regs->ip = (unsigned long)arch_rethook_trampoline;
	regs->orig_ax = ~0UL;
	regs->sp = (unsigned long)(regs + 1) + sizeof(long);
	rethook_trampoline_handler(regs, (unsigned long)(regs + 1));
	/* The last that the trampoline takes from the stack before it returns. */
	regs->ss = regs->flags;
}

NOKPROBE_SYMBOL(tane_rethook_return);

void arch_rethook_fixup_return(struct pt_regs *regs, unsigned long address)
{
	*(unsigned long *)(regs + 1) = address;
}

NOKPROBE_SYMBOL(arch_rethook_fixup_return);

void arch_rethook_prepare(struct rethook_node *node, struct pt_regs *regs,
			  bool mcount)
{
	unsigned long *stack = (unsigned long *)regs->sp;

	node->ret_addr = *stack;
	node->frame = regs->sp;
	*stack = (unsigned long)arch_rethook_trampoline;
}

NOKPROBE_SYMBOL(arch_rethook_prepare);

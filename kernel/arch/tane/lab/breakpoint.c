// SPDX-License-Identifier: GPL-2.0-only
/*
 * An int3, which came as a signal of the host's. It is like an interrupt gate of a
 * processor: interrupts are off meanwhile, and the flag in the registers says how
 * they are afterwards. The signal may come late, when the int3 is gone again.
 */
#include <linux/irqflags.h>
#include <linux/kprobes.h>
#include <linux/ptrace.h>
#include <asm/code.h>
#include <asm/text-patching.h>

/* So often somebody may put an int3 there again between two looks. */
#define LOOKS	1000

/* Of a probe. One by ftrace has no int3: what is there is a change under way. */
static bool tane_is_probe(struct pt_regs *regs, u8 *at)
{
	struct kprobe *probe = get_kprobe(at);

	return !(probe && kprobe_ftrace(probe)) && kprobe_int3_handler(regs);
}

NOKPROBE_SYMBOL(tane_is_probe);

static bool noinstr tane_look(struct pt_regs *regs)
{
	u8 *at = (u8 *)regs->ip - INT3_INSN_SIZE;

	for (int i = 0; i < LOOKS; i++) {
		if (poke_int3_handler(regs))
			return true;
		if (READ_ONCE(*at) != INT3_INSN_OPCODE) {
			regs->ip = (unsigned long)at;
			return true;
		}
		if (IS_ENABLED(CONFIG_KPROBES) && tane_is_probe(regs, at))
			return true;
	}
	return false;
}

bool noinstr tane_breakpoint(struct pt_regs *regs)
{
	bool enabled = tane_vcpu_get(irq_enabled), done;

	arch_local_irq_disable();
	if (enabled)
		regs->flags |= X86_EFLAGS_IF;
	else
		regs->flags &= ~X86_EFLAGS_IF;
	done = tane_look(regs);
	if (done && regs->flags & X86_EFLAGS_IF)
		arch_local_irq_enable();
	return done;
}

// SPDX-License-Identifier: GPL-2.0-only
/* Registers, arguments and the stack by name and number, as events ask for them. */
#include <linux/kprobes.h>
#include <linux/ptrace.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static const struct {
	const char *name;
	unsigned int offset;
} tane_registers[] = {
#define REGISTER(name)	{ #name, offsetof(struct pt_regs, name) }
	REGISTER(r15), REGISTER(r14), REGISTER(r13), REGISTER(r12),
	REGISTER(bp), REGISTER(bx), REGISTER(r11), REGISTER(r10),
	REGISTER(r9), REGISTER(r8), REGISTER(ax), REGISTER(cx),
	REGISTER(dx), REGISTER(si), REGISTER(di), REGISTER(orig_ax),
	REGISTER(ip), REGISTER(cs), REGISTER(flags), REGISTER(sp),
	REGISTER(ss),
#undef REGISTER
};

int regs_query_register_offset(const char *name)
{
	for (int i = 0; i < ARRAY_SIZE(tane_registers); i++)
		if (!strcmp(tane_registers[i].name, name))
			return tane_registers[i].offset;
	return -EINVAL;
}

const char *regs_query_register_name(unsigned int offset)
{
	for (int i = 0; i < ARRAY_SIZE(tane_registers); i++)
		if (tane_registers[i].offset == offset)
			return tane_registers[i].name;
	return NULL;
}

unsigned long regs_get_kernel_stack_nth(struct pt_regs *regs, unsigned int n)
{
	unsigned long *at = (unsigned long *)regs->sp + n, value;

	if (!regs_within_kernel_stack(regs, (unsigned long)at) ||
	    copy_from_kernel_nofault(&value, at, sizeof(value)))
		return 0;
	return value;
}

NOKPROBE_SYMBOL(regs_get_kernel_stack_nth);

/* At a function's first instruction: the return address is the stack's top. */
unsigned long regs_get_kernel_argument(struct pt_regs *regs, unsigned int n)
{
	const unsigned long in_registers[] = {
		regs->di, regs->si, regs->dx, regs->cx, regs->r8, regs->r9,
	};

	if (n < ARRAY_SIZE(in_registers))
		return in_registers[n];
	return regs_get_kernel_stack_nth(regs, n + 1 - ARRAY_SIZE(in_registers));
}

NOKPROBE_SYMBOL(regs_get_kernel_argument);

// SPDX-License-Identifier: GPL-2.0-only
/* A function that is made to fail: it returns before it has done anything. */
#include <linux/error-injection.h>
#include <linux/kprobes.h>

void tane_only_return(void);

asm(".pushsection .kprobes.text, \"ax\"; tane_only_return: ret; .popsection");

void override_function_with_return(struct pt_regs *regs)
{
	regs->ip = (unsigned long)tane_only_return;
}

NOKPROBE_SYMBOL(override_function_with_return);

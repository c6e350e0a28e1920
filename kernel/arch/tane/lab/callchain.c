// SPDX-License-Identifier: GPL-2.0-only
/* Stacks for perf events and programs of BPF: as elsewhere, every text address that is on one. */
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/perf_event.h>
#include <linux/ptrace.h>

void perf_callchain_kernel(struct perf_callchain_entry_ctx *entry,
			   struct pt_regs *regs)
{
	unsigned long *at = (unsigned long *)regs->sp;

	if (perf_callchain_store(entry, regs->ip))
		return;
	for (; regs_within_kernel_stack(regs, (unsigned long)at); at++) {
		unsigned long address = READ_ONCE_NOCHECK(*at);

		if (__kernel_text_address(address) &&
		    perf_callchain_store(entry, address))
			return;
	}
}

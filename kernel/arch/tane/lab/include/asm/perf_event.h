/* SPDX-License-Identifier: GPL-2.0-only */
/* No counters of a processor: events are the kernel's own. */
#ifndef _ASM_TANE_LAB_PERF_EVENT_H
#define _ASM_TANE_LAB_PERF_EVENT_H

#include <asm/ptrace.h>

#define perf_arch_fetch_caller_regs(regs, address)			\
do {									\
	(regs)->ip = (address);						\
	(regs)->sp = (unsigned long)__builtin_frame_address(0);		\
	(regs)->cs = __KERNEL_CS;					\
	(regs)->flags = 0;						\
} while (0)

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The port's registers by two names each: its own, which are those of programs,
 * and those that Linux's code for x86-64 has for them in the kernel.
 */
#ifndef _ASM_TANE_LAB_PTRACE_H
#define _ASM_TANE_LAB_PTRACE_H

#include <x86/include/uapi/asm/processor-flags.h>
#include <x86/include/uapi/asm/ptrace-abi.h>

/* What x86 writes for cs and ss; a host's signal handler writes 0. */
#define __KERNEL_CS	0x10
#define __KERNEL_DS	0x18

#ifndef __ASSEMBLY__

#include <linux/compiler.h>
#include <linux/stddef.h>
#include <asm/page.h>
#include <asm/thread_info.h>

/* In the order in which a host's signal handler and x86's trampolines write them.
 */
struct pt_regs {
	unsigned long r15, r14, r13, r12;
	union { unsigned long rbp, bp; };
	union { unsigned long rbx, bx; };
	unsigned long r11, r10, r9, r8;
	union { unsigned long rax, ax; };
	union { unsigned long rcx, cx; };
	union { unsigned long rdx, dx; };
	union { unsigned long rsi, si; };
	union { unsigned long rdi, di; };
	union { unsigned long orig_rax, orig_ax; };
	union { unsigned long rip, ip; };
	unsigned long cs;
	union { unsigned long eflags, flags; };
	union { unsigned long rsp, sp; };
	unsigned long ss;
};

/* The interrupt flag is the virtual CPU's: breakpoint.c puts it into flags. */

#define user_mode(regs)			(((regs)->cs & 3) != 0)
#define instruction_pointer(regs)	((regs)->ip)
#define profile_pc(regs)		instruction_pointer(regs)
#define user_stack_pointer(regs)	((regs)->sp)
#define kernel_stack_pointer(regs)	((regs)->sp)
#define frame_pointer(regs)		((regs)->bp)
#define regs_return_value(regs)		((regs)->ax)
#define regs_irqs_disabled(regs)	(!((regs)->flags & X86_EFLAGS_IF))
#define MAX_REG_OFFSET			offsetof(struct pt_regs, ss)

static inline void instruction_pointer_set(struct pt_regs *regs, unsigned long ip)
{
	regs->ip = ip;
}

static inline void regs_set_return_value(struct pt_regs *regs, unsigned long value)
{
	regs->ax = value;
}

/* lab/registers.c */
int regs_query_register_offset(const char *name);
const char *regs_query_register_name(unsigned int offset);
unsigned long regs_get_kernel_argument(struct pt_regs *regs, unsigned int n);
unsigned long regs_get_kernel_stack_nth(struct pt_regs *regs, unsigned int n);

static inline unsigned long regs_get_register(struct pt_regs *regs,
					      unsigned int offset)
{
	if (unlikely(offset > MAX_REG_OFFSET))
		return 0;
	return *(unsigned long *)((unsigned long)regs + offset);
}

static inline bool regs_within_kernel_stack(struct pt_regs *regs,
					    unsigned long address)
{
	return (address & ~(THREAD_SIZE - 1)) == (regs->sp & ~(THREAD_SIZE - 1));
}

#endif
#endif

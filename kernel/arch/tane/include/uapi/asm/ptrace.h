/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
#ifndef _UAPI_ASM_TANE_PTRACE_H
#define _UAPI_ASM_TANE_PTRACE_H

#ifndef __ASSEMBLY__

/*
 * x86-64's order. On a kernel stack a host signal handler writes it for the
 * trampolines of kernel/gate.S; cs is 0 there, for "in the kernel".
 */
struct pt_regs {
	unsigned long r15, r14, r13, r12, rbp, rbx;
	unsigned long r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	unsigned long orig_rax;
	unsigned long rip, cs, eflags, rsp, ss;
};

#endif
#endif

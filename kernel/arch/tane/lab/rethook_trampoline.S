/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>
#include <asm/ptrace.h>

	.section .kprobes.text, "ax"

/*
 * A function has returned to here. Call tane_rethook_return() with struct pt_regs;
 * the word above that becomes the address where the function would have gone.
 */
SYM_CODE_START(arch_rethook_trampoline)
	leaq	-8(%rsp), %rsp
	pushq	$__KERNEL_DS
	pushq	%rsp
	pushfq
	subq	$24, %rsp		/* cs, ip, orig_ax */
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rax
	pushq	%r8
	pushq	%r9
	pushq	%r10
	pushq	%r11
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, %rdi
	call	tane_rethook_return
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	popq	%r11
	popq	%r10
	popq	%r9
	popq	%r8
	popq	%rax
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	addq	$40, %rsp		/* up to ss, which now holds the flags */
	popfq
	ret
SYM_CODE_END(arch_rethook_trampoline)

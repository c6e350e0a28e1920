/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/vcpu.h>

#define VCPU(field)	%gs:(VCPU_##field + TANE_VCPU_AT)

#ifdef CONFIG_TANE_LAB
	.section .entry.text, "ax"	/* no probe here */
#else
	.text
#endif

/*
 * long tane_host_call(void *op, u64 a, u64 b, u64 c, u64 d)
 *
 * op(host, a, b, c, d) on the stack of the host thread that is inside, below
 * the frame with which it came in: a host function may need more stack than a
 * task has.
 */
SYM_FUNC_START(tane_host_call)
	pushq	%rbp
	movq	%rsp, %rbp
	cmpq	$0, VCPU(CALLER)
	jne	2f
1:
	movq	VCPU(HOST_SP), %rsp
	movq	%rdi, %rax
	movq	tane_boot(%rip), %rdi
	movq	BOOT_OPS(%rdi), %rdi
	movq	OPS_HOST(%rdi), %rdi
	call	*%rax
	movq	%rbp, %rsp
	popq	%rbp
	ret
2:	/* A program is inside, and wants its vector registers back. */
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%r8
	subq	$8, %rsp
	movq	VCPU(CALLER), %rdi
	call	tane_save_vectors
	addq	$8, %rsp
	popq	%r8
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	jmp	1b
SYM_FUNC_END(tane_host_call)

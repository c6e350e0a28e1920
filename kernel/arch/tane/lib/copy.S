/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * memcpy, memmove, memset and page operations without vector registers: short
 * lengths by words, longer ones by the processor's own string instructions, from
 * tane_string_from on (kernel/fpu.c).
 */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/page.h>

	.text

SYM_FUNC_START(__memmove)
	movq	%rdi, %rax
	subq	%rsi, %rax
	cmpq	%rdx, %rax		/* 0 <= to - from < len: backwards */
	jae	__memcpy
	movq	%rdi, %rax
	testq	%rdx, %rdx
	jz	2f
	cmpq	%rdi, %rsi
	je	2f
	/* Words from the end, then what is left at the start. */
1:	cmpq	$8, %rdx
	jb	3f
	movq	-8(%rsi, %rdx), %rcx
	movq	%rcx, -8(%rdi, %rdx)
	subq	$8, %rdx
	jmp	1b
3:	testq	%rdx, %rdx
	jz	2f
	movb	-1(%rsi, %rdx), %cl
	movb	%cl, -1(%rdi, %rdx)
	decq	%rdx
	jmp	3b
2:	ret
SYM_FUNC_END(__memmove)
SYM_FUNC_ALIAS_WEAK(memmove, __memmove)
EXPORT_SYMBOL(memmove)
EXPORT_SYMBOL(__memmove)

SYM_FUNC_START(__memcpy)
	movq	%rdi, %rax
	cmpq	tane_string_from(%rip), %rdx
	jae	4f
	cmpq	$16, %rdx
	jb	2f
1:	movq	(%rsi), %rcx
	movq	8(%rsi), %r8
	movq	%rcx, (%rdi)
	movq	%r8, 8(%rdi)
	addq	$16, %rsi
	addq	$16, %rdi
	subq	$16, %rdx
	cmpq	$16, %rdx
	jae	1b
2:	testb	$8, %dl
	jz	3f
	movq	(%rsi), %rcx
	movq	%rcx, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
3:	testb	$4, %dl
	jz	5f
	movl	(%rsi), %ecx
	movl	%ecx, (%rdi)
	addq	$4, %rsi
	addq	$4, %rdi
5:	testb	$2, %dl
	jz	6f
	movw	(%rsi), %cx
	movw	%cx, (%rdi)
	addq	$2, %rsi
	addq	$2, %rdi
6:	testb	$1, %dl
	jz	7f
	movb	(%rsi), %cl
	movb	%cl, (%rdi)
7:	ret
4:	movq	%rdx, %rcx
	rep movsb
	ret
SYM_FUNC_END(__memcpy)
SYM_FUNC_ALIAS_WEAK(memcpy, __memcpy)
EXPORT_SYMBOL(memcpy)
EXPORT_SYMBOL(__memcpy)

SYM_FUNC_START(__memset)
	movq	%rdi, %r9
	movzbl	%sil, %eax
	movq	%rdx, %rcx
	cmpq	tane_string_from(%rip), %rdx
	jae	6f
	movabsq	$0x0101010101010101, %r8
	imulq	%r8, %rax
1:	cmpq	$32, %rcx
	jb	2f
	movq	%rax, (%rdi)
	movq	%rax, 8(%rdi)
	movq	%rax, 16(%rdi)
	movq	%rax, 24(%rdi)
	addq	$32, %rdi
	subq	$32, %rcx
	jmp	1b
2:	cmpl	$8, %ecx
	jb	3f
	movq	%rax, (%rdi)
	addq	$8, %rdi
	subl	$8, %ecx
	jmp	2b
3:	testb	$4, %cl
	jz	4f
	movl	%eax, (%rdi)
	addq	$4, %rdi
4:	testb	$2, %cl
	jz	5f
	movw	%ax, (%rdi)
	addq	$2, %rdi
5:	testb	$1, %cl
	jz	7f
	movb	%al, (%rdi)
	jmp	7f
6:	rep stosb
7:	movq	%r9, %rax
	ret
SYM_FUNC_END(__memset)
SYM_FUNC_ALIAS_WEAK(memset, __memset)
EXPORT_SYMBOL(memset)
EXPORT_SYMBOL(__memset)

SYM_FUNC_START(clear_page)
	movl	$PAGE_SIZE / 8, %ecx
	xorl	%eax, %eax
	rep stosq
	ret
SYM_FUNC_END(clear_page)
EXPORT_SYMBOL(clear_page)

SYM_FUNC_START(copy_page)
	movl	$PAGE_SIZE / 8, %ecx
	rep movsq
	ret
SYM_FUNC_END(copy_page)
EXPORT_SYMBOL(copy_page)

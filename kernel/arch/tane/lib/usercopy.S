/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies to and from the host process's memory. Any access may fault; the
 * result is the number of bytes not done, exact to the byte, because a fault in
 * the fast part goes on byte by byte.
 */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/asm.h>

#define STRING_THRESHOLD 128

	.text

/* unsigned long tane_copy(void *to, const void *from, unsigned long len) */
SYM_FUNC_START(tane_copy)
	movq	%rdx, %rcx
	cmpq	$STRING_THRESHOLD, %rdx
	jae	.Lbytes
1:	cmpq	$8, %rcx
	jb	4f
2:	movq	(%rsi), %rax
3:	movq	%rax, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
	subq	$8, %rcx
	jmp	1b
4:	testl	%ecx, %ecx
	jz	7f
5:	movb	(%rsi), %al
6:	movb	%al, (%rdi)
	incq	%rsi
	incq	%rdi
	decl	%ecx
	jmp	4b
7:	xorl	%eax, %eax
	ret
.Lbytes:
8:	rep movsb
.Lleft:
	movq	%rcx, %rax
	ret
	_ASM_EXTABLE_UA(2b, .Lbytes)
	_ASM_EXTABLE_UA(3b, .Lbytes)
	_ASM_EXTABLE_UA(5b, .Lleft)
	_ASM_EXTABLE_UA(6b, .Lleft)
	_ASM_EXTABLE_UA(8b, .Lleft)
SYM_FUNC_END(tane_copy)
EXPORT_SYMBOL(tane_copy)

/* unsigned long tane_clear(void *to, unsigned long len) */
SYM_FUNC_START(tane_clear)
	movq	%rsi, %rcx
	xorl	%eax, %eax
1:	rep stosb
2:	movq	%rcx, %rax
	ret
	_ASM_EXTABLE_UA(1b, 2b)
SYM_FUNC_END(tane_clear)
EXPORT_SYMBOL(tane_clear)

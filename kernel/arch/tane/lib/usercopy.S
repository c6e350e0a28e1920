/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Copies to and from the host process's memory. Any access may fault; the
 * result is the number of bytes not done, exact to the byte, because after a
 * fault among words the string instruction does the rest, and stops at the byte.
 */
#include <linux/export.h>
#include <linux/linkage.h>
#include <asm/asm.h>

	.text

/* unsigned long tane_copy(void *to, const void *from, unsigned long len) */
SYM_FUNC_START(tane_copy)
	movq	%rdx, %rcx
	cmpq	tane_string_from(%rip), %rdx
	jae	.Lbytes
.Lblocks:
	cmpq	$32, %rcx
	jb	.Lwords
1:	movq	(%rsi), %rax
2:	movq	8(%rsi), %r8
3:	movq	16(%rsi), %r9
4:	movq	24(%rsi), %r10
5:	movq	%rax, (%rdi)
6:	movq	%r8, 8(%rdi)
7:	movq	%r9, 16(%rdi)
8:	movq	%r10, 24(%rdi)
	addq	$32, %rsi
	addq	$32, %rdi
	subq	$32, %rcx
	jmp	.Lblocks
.Lwords:
	cmpl	$8, %ecx
	jb	.Lpieces
9:	movq	(%rsi), %rax
10:	movq	%rax, (%rdi)
	addq	$8, %rsi
	addq	$8, %rdi
	subl	$8, %ecx
	jmp	.Lwords
.Lpieces:
	testb	$4, %cl
	jz	.Ltwo
11:	movl	(%rsi), %eax
12:	movl	%eax, (%rdi)
	addq	$4, %rsi
	addq	$4, %rdi
	subl	$4, %ecx
.Ltwo:
	testb	$2, %cl
	jz	.Lone
13:	movw	(%rsi), %ax
14:	movw	%ax, (%rdi)
	addq	$2, %rsi
	addq	$2, %rdi
	subl	$2, %ecx
.Lone:
	testl	%ecx, %ecx
	jz	.Lall
15:	movb	(%rsi), %al
16:	movb	%al, (%rdi)
.Lall:
	xorl	%eax, %eax
	ret
.Lbytes:
17:	rep movsb
.Lleft:
	movq	%rcx, %rax
	ret
	_ASM_EXTABLE_UA(1b, .Lbytes)
	_ASM_EXTABLE_UA(2b, .Lbytes)
	_ASM_EXTABLE_UA(3b, .Lbytes)
	_ASM_EXTABLE_UA(4b, .Lbytes)
	_ASM_EXTABLE_UA(5b, .Lbytes)
	_ASM_EXTABLE_UA(6b, .Lbytes)
	_ASM_EXTABLE_UA(7b, .Lbytes)
	_ASM_EXTABLE_UA(8b, .Lbytes)
	_ASM_EXTABLE_UA(9b, .Lbytes)
	_ASM_EXTABLE_UA(10b, .Lbytes)
	_ASM_EXTABLE_UA(11b, .Lbytes)
	_ASM_EXTABLE_UA(12b, .Lbytes)
	_ASM_EXTABLE_UA(13b, .Lbytes)
	_ASM_EXTABLE_UA(14b, .Lbytes)
	_ASM_EXTABLE_UA(15b, .Lleft)
	_ASM_EXTABLE_UA(16b, .Lleft)
	_ASM_EXTABLE_UA(17b, .Lleft)
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

/*
 * Frames as GCC makes them with -Os and -Oz, written out, since which of its versions makes which
 * of them where is not for sure.
 */
unsigned long part(unsigned long seed, unsigned long more);
unsigned long pushed(unsigned long seed, unsigned long more);
unsigned long pushed_again(unsigned long seed, unsigned long more);
unsigned long constant(unsigned long seed, unsigned long more);
unsigned long pointer(unsigned long seed, unsigned long more);
unsigned long spare(unsigned long seed, unsigned long more);

/* Has locals, which lie on what a caller that has lost its frame keeps. */
__attribute__((noipa)) unsigned long part(unsigned long seed, unsigned long more)
{
	volatile unsigned long some[3] = { seed, more, 31 };

	return some[0] * some[2] + some[1];
}

/*
 * Eight bytes more by a push of a register that nobody wants: this is no register that is kept,
 * and what is told behind the ret does not know it.
 */
asm(".text\n"
    ".globl pushed\n"
    "pushed:\n"
    "	.cfi_startproc\n"
    "	testq	%rdi, %rdi\n"
    "	je	.L9001\n"
    "	pushq	%rbp\n"
    "	.cfi_def_cfa_offset 16\n"
    "	.cfi_offset 6, -16\n"
    "	pushq	%rbx\n"
    "	.cfi_def_cfa_offset 24\n"
    "	.cfi_offset 3, -24\n"
    "	movq	%rdi, %rbx\n"
    "	pushq	%r8\n"
    "	.cfi_def_cfa_offset 32\n"
    "	testq	%rsi, %rsi\n"
    "	je	.L9002\n"
    "	movq	%rsi, (%rsp)\n"
    "	call	part\n"
    "	addq	(%rsp), %rax\n"
    "	leaq	(%rax,%rbx), %rdi\n"
    ".L9003:\n"
    "	popq	%rdx\n"
    "	.cfi_def_cfa_offset 24\n"
    "	movq	%rdi, %rax\n"
    "	popq	%rbx\n"
    "	.cfi_restore 3\n"
    "	.cfi_def_cfa_offset 16\n"
    "	popq	%rbp\n"
    "	.cfi_restore 6\n"
    "	.cfi_def_cfa_offset 8\n"
    "	ret\n"
    ".L9001:\n"
    "	movl	$1, %eax\n"
    "	ret\n"
    ".L9002:\n"
    "	.cfi_def_cfa_offset 32\n"
    "	.cfi_offset 3, -24\n"
    "	.cfi_offset 6, -16\n"
    "	movl	$2, %edi\n"
    "	jmp	.L9003\n"
    "	.cfi_endproc\n");

/* Sixteen bytes, one half by a register that is kept already. */
asm(".globl pushed_again\n"
    "pushed_again:\n"
    "	.cfi_startproc\n"
    "	pushq	%rbx\n"
    "	.cfi_def_cfa_offset 16\n"
    "	.cfi_offset 3, -16\n"
    "	pushq	%rbx\n"
    "	pushq	%rax\n"
    "	.cfi_def_cfa_offset 32\n"
    "	movq	%rdi, %rbx\n"
    "	movq	%rsi, 8(%rsp)\n"
    "	call	part\n"
    "	addq	%rbx, %rax\n"
    "	addq	8(%rsp), %rax\n"
    "	popq	%rcx\n"
    "	popq	%rsi\n"
    "	.cfi_def_cfa_offset 16\n"
    "	popq	%rbx\n"
    "	.cfi_def_cfa_offset 8\n"
    "	ret\n"
    "	.cfi_endproc\n");

/* A constant comes into a register by way of the stack, in between are others. */
asm(".globl constant\n"
    "constant:\n"
    "	.cfi_startproc\n"
    "	pushq	$-5\n"
    "	.cfi_def_cfa_offset 16\n"
    "	leaq	3(%rdi), %rax\n"
    "	popq	%rdx\n"
    "	.cfi_def_cfa_offset 8\n"
    "	imulq	%rdx, %rax\n"
    "	subq	$24, %rsp\n"
    "	.cfi_def_cfa_offset 32\n"
    "	movq	%rax, 8(%rsp)\n"
    "	pushq	$7\n"
    "	.cfi_def_cfa_offset 40\n"
    "	popq	%rdi\n"
    "	.cfi_def_cfa_offset 32\n"
    "	call	part\n"
    "	addq	8(%rsp), %rax\n"
    "	addq	$24, %rsp\n"
    "	.cfi_def_cfa_offset 8\n"
    "	ret\n"
    "	.cfi_endproc\n");

/* Locals go by what they are long, where rbp is the frame's, and a constant on one way only. */
asm(".globl pointer\n"
    "pointer:\n"
    "	.cfi_startproc\n"
    "	pushq	%rbp\n"
    "	.cfi_def_cfa_offset 16\n"
    "	.cfi_offset 6, -16\n"
    "	movq	%rsp, %rbp\n"
    "	.cfi_def_cfa_register 6\n"
    "	pushq	%rbx\n"
    "	.cfi_offset 3, -24\n"
    "	movq	%rdi, %rbx\n"
    "	testq	$1, %rsi\n"
    "	je	.L9004\n"
    "	pushq	$9\n"
    "	popq	%rdi\n"
    ".L9004:\n"
    "	pushq	%rax\n"
    "	testq	$2, %rsi\n"
    "	jne	.L9006\n"
    "	movq	%rsi, (%rsp)\n"
    "	call	part\n"
    "	addq	-16(%rbp), %rax\n"
    ".L9005:\n"
    "	addq	%rbx, %rax\n"
    "	addq	$8, %rsp\n"
    "	popq	%rbx\n"
    "	.cfi_restore 3\n"
    "	popq	%rbp\n"
    "	.cfi_restore 6\n"
    "	.cfi_def_cfa 7, 8\n"
    "	ret\n"
    ".L9006:\n"
    "	.cfi_def_cfa 6, 16\n"
    "	.cfi_offset 3, -24\n"
    "	.cfi_offset 6, -16\n"
    "	pushq	$11\n"
    "	popq	%rax\n"
    "	jmp	.L9005\n"
    "	.cfi_endproc\n");

/* The same, by a pop. */
asm(".globl spare\n"
    "spare:\n"
    "	.cfi_startproc\n"
    "	pushq	%rbp\n"
    "	.cfi_def_cfa_offset 16\n"
    "	.cfi_offset 6, -16\n"
    "	movq	%rsp, %rbp\n"
    "	.cfi_def_cfa_register 6\n"
    "	pushq	%rbx\n"
    "	.cfi_offset 3, -24\n"
    "	pushq	%rdx\n"
    "	movq	%rdi, %rbx\n"
    "	call	part\n"
    "	addq	%rbx, %rax\n"
    "	popq	%rdx\n"
    "	popq	%rbx\n"
    "	.cfi_restore 3\n"
    "	popq	%rbp\n"
    "	.cfi_restore 6\n"
    "	.cfi_def_cfa 7, 8\n"
    "	ret\n"
    "	.cfi_endproc\n");

unsigned long work(unsigned long n)
{
	volatile unsigned long kept[4] = { 3, 5, 7, 11 };
	unsigned long sum = 0;

	for (unsigned long i = 0; i < 16 * n; i++) {
		sum = sum * 7 + pushed(i % 3, i % 4);
		sum = sum * 7 + pushed_again(sum, kept[i % 4]);
		sum = sum * 7 + constant(i, sum);
		sum = sum * 7 + pointer(sum, i);
		sum = sum * 7 + spare(sum, kept[0]);
	}
	return sum + kept[1] * kept[2] + kept[3];
}

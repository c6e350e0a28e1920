/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The gate: how a host thread gets in and out of the kernel, and how tasks
 * change kernel stacks. Every parked stack, the host's included, ends in the
 * same frame, so any of them can resume after any other has been left. A call
 * is always matched by a return on the same stack: the processor's return
 * predictor stays right (30 -> 14.5 ns per getppid in a prototype).
 */
#include <linux/init.h>
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/thread_info.h>

	.macro PARK
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	subq	$8, %rsp		/* keeps calls below 16-byte aligned */
	.endm

#define PARKED_RBX	40
#define PARKED_SIZE	56

	.macro UNPARK
	addq	$8, %rsp
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	.endm

	__HEAD				/* it goes into init code, once */
/* struct tane_exit tane_gate_start(struct tane_vcpu *, struct tane_boot *) */
SYM_FUNC_START(tane_gate_start)
	PARK
	movq	%rsp, VCPU_HOST_SP(%rdi)
	leaq	init_thread_union + THREAD_SIZE - SIZEOF_PT_REGS - 8(%rip), %rsp
	andq	$-16, %rsp
	xorl	%ebp, %ebp
	movq	%rsi, %rdi
	call	tane_start_kernel
	ud2
SYM_FUNC_END(tane_gate_start)

#ifdef CONFIG_TANE_LAB
	.section .entry.text, "ax"	/* no probe here */
#else
	.text
#endif

/* struct tane_exit tane_gate_enter(struct tane_vcpu *) */
SYM_FUNC_START(tane_gate_enter)
	PARK
	movq	%rsp, VCPU_HOST_SP(%rdi)
	movq	VCPU_KERNEL_SP(%rdi), %rsp
	xorl	%eax, %eax		/* tane_leave() returns 0: resumed */
	UNPARK
	ret
SYM_FUNC_END(tane_gate_enter)

/* struct tane_exit tane_gate_call(struct tane_vcpu *, long nr, u64 args[6]) */
SYM_FUNC_START(tane_gate_call)
	PARK
	movq	%rsp, VCPU_HOST_SP(%rdi)
	movq	VCPU_KERNEL_SP(%rdi), %rsp
	movq	VCPU_SWITCHES(%rdi), %rbx
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	call	tane_syscall
	/*
	 * No task switch since, on the same CPU, whose number is in there: the
	 * host's frame is ours, and the registers of that frame but one are as
	 * they were.
	 */
	cmpq	%gs:VCPU_SWITCHES, %rbx
	jne	1f
	movq	%gs:VCPU_HOST_SP, %rsp
	xorl	%edx, %edx
	movq	PARKED_RBX(%rsp), %rbx
	addq	$PARKED_SIZE, %rsp
	ret
1:	/*
	 * Another host thread may be inside by now, or the same one for another
	 * reason. Leave the result in the slot and go on as if resumed from the
	 * parked frame, which this stack still ends in.
	 */
	movq	%rax, %rdi
	call	tane_complete
	movl	$1, %eax		/* tane_leave() returns 1: completed */
	UNPARK
	ret
SYM_FUNC_END(tane_gate_call)

/* long tane_leave(u64 reason): park here, go on in the host */
SYM_FUNC_START(tane_leave)
	PARK
	movq	%rsp, %gs:VCPU_KERNEL_SP
	movq	%gs:VCPU_HOST_SP, %rsp
	movq	%rdi, %rdx
	xorl	%eax, %eax
	UNPARK
	ret
SYM_FUNC_END(tane_leave)

/* task *tane_switch_stacks(u64 *prev_sp, u64 next_sp, task *prev) */
SYM_FUNC_START(tane_switch_stacks)
	PARK
	movq	%rsp, (%rdi)
	movq	%rsi, %rsp
	movq	%rdx, %rax
	UNPARK
	ret
SYM_FUNC_END(tane_switch_stacks)

/* A new task's first instruction: rax the previous task, rbx fn, r12 its arg */
SYM_CODE_START(tane_ret_from_fork)
	movq	%rax, %rdi
	call	schedule_tail
	testq	%rbx, %rbx
	jz	1f
	movq	%r12, %rdi
	call	*%rbx			/* comes back after kernel_execve() */
1:	call	tane_user_mode
	ud2
SYM_CODE_END(tane_ret_from_fork)

/*
 * Trampolines: a signal handler of the host has written struct pt_regs at rsp
 * and made rip point here. Handle it, then restore every register.
 */
	.macro TRAP name function
SYM_CODE_START(\name)
	cld
	movq	%rsp, %rbx
	andq	$-16, %rsp
	movq	%rbx, %rdi
	call	\function
	movq	%rbx, %rsp
	jmp	tane_trap_return
SYM_CODE_END(\name)
	.endm

	TRAP tane_trap_fault tane_fault
	TRAP tane_trap_invalid tane_invalid
	TRAP tane_trap_interrupt tane_interrupt

SYM_CODE_START_LOCAL(tane_trap_return)
	/* The word below the interrupted rsp is free: there is no red zone. */
	movq	REGS_RSP(%rsp), %rax
	subq	$8, %rax
	movq	REGS_RIP(%rsp), %rcx
	movq	%rcx, (%rax)
	movq	%rax, REGS_RSP(%rsp)
	pushq	REGS_EFLAGS(%rsp)
	popfq
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
	movq	REGS_RSP - 15 * 8(%rsp), %rsp
	ret
SYM_CODE_END(tane_trap_return)

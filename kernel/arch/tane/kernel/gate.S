/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The gate: how a host thread gets in and out of the kernel, and how tasks
 * change kernel stacks. Every parked stack, the host's included, ends in the
 * same frame, so any of them can resume after any other has been left. A call
 * is always matched by a return on the same stack: the processor's return
 * predictor stays right (30 -> 14.5 ns per getppid in a prototype).
 */
#include <linux/init.h>
#include <linux/errno.h>
#include <linux/linkage.h>
#include <asm/asm-offsets.h>
#include <asm/thread_info.h>
#include <asm/vcpu.h>

/* A field of the virtual CPU, and of the thread's struct tane_caller. */
#define VCPU(field)		%gs:(VCPU_##field + TANE_VCPU_AT)
#define CALLER(field)		%gs:(CALLER_##field + 2 * TANE_VCPU_AT)
#define CALLER_REG(reg)		%gs:(CALLER_REGS + REGS_##reg + 2 * TANE_VCPU_AT)

	.macro PARK
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	subq	$8, %rsp		/* keeps calls below 16-byte aligned */
	.endm

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

/*
 * What a call that was interrupted starts again with stays in registers that a C
 * function preserves, since a store costs more than it looks: there is one a cycle.
 * The caller's are in the host's frame, or in struct tane_caller. The frame below
 * the parked one is struct pt_regs, 16-byte aligned, filled in when it is needed.
 */
#define CALL_FRAME	((SIZEOF_PT_REGS + 15) & ~15)

	.macro KEEP_CALL
	movq	%rax, REGS_ORIG_RAX(%rsp)
	movq	%r9, REGS_R9(%rsp)
	movq	%rdi, %rbp
	movq	%rsi, %r12
	movq	%rdx, %r13
	movq	%r10, %r14
	movq	%r8, %r15
	.endm

	.macro RELOAD_CALL
	movq	REGS_ORIG_RAX(%rsp), %rax
	movq	REGS_R9(%rsp), %r9
	movq	%rbp, %rdi
	movq	%r12, %rsi
	movq	%r13, %rdx
	movq	%r14, %r10
	movq	%r15, %r8
	.endm

	.macro SHOW_CALL
	movq	%rbp, REGS_RDI(%rsp)
	movq	%r12, REGS_RSI(%rsp)
	movq	%r13, REGS_RDX(%rsp)
	movq	%r14, REGS_R10(%rsp)
	movq	%r15, REGS_R8(%rsp)
	.endm

/*
 * The core of every way in: a system call for current, whose frame is at rsp and
 * whose registers still are the caller's. Interrupts are off before and after it.
 * Result in rax; what a C function need not preserve is lost.
 */
	.macro DO_CALL
#ifdef CONFIG_TRACE_IRQFLAGS
	call	tane_begin_call
	RELOAD_CALL
#else
	movl	$1, VCPU(IRQ_ENABLED)
	cmpq	$0, VCPU(PENDING)
	jne	.Lpending\@
.Lcall\@:
#endif
#ifdef CONFIG_TANE_SECCOMP
	movq	VCPU(CURRENT_TASK), %rcx
	testl	$_TIF_SECCOMP, TASK_FLAGS(%rcx)
	jnz	.Lfilter\@
.Lallowed\@:
#endif
	cmpq	$NR_SYSCALLS, %rax
	jae	.Lnone\@
	/* As array_index_nospec() does: 0 where the jump was not yet known. */
	sbbq	%rcx, %rcx
	andq	%rcx, %rax
	movq	%r10, %rcx
	leaq	sys_call_table(%rip), %r11
	call	*(%r11, %rax, 8)
.Lreturned\@:
#ifdef CONFIG_TRACE_IRQFLAGS
	movq	%rax, REGS_RAX(%rsp)
	call	tane_mask_call
	movq	REGS_RAX(%rsp), %rax
#else
	movl	$0, VCPU(IRQ_ENABLED)
#endif
	/* No work at its end, not to be restarted, and nobody else to run? */
	movq	VCPU(CURRENT_TASK), %rcx
	testl	$_TIF_CALL_MASK, TASK_FLAGS(%rcx)
	jnz	.Lend\@
	leaq	ERESTART_RESTARTBLOCK(%rax), %rcx
	cmpq	$ERESTART_RESTARTBLOCK - ERESTARTSYS, %rcx
	jbe	.Lend\@
	leaq	runqueues(%rip), %rcx
#ifdef CONFIG_SMP
	addq	VCPU(PERCPU_OFFSET), %rcx
#endif
	cmpl	$1, RQ_NR_RUNNING(%rcx)
	jne	.Lend\@
.Ldone\@:
	.pushsection .text.unlikely, "ax"
#ifndef CONFIG_TRACE_IRQFLAGS
.Lpending\@:
	call	tane_begin_call
	RELOAD_CALL
	jmp	.Lcall\@
#endif
#ifdef CONFIG_TANE_SECCOMP
.Lfilter\@:
	SHOW_CALL
	movq	%rsp, %rdi
	call	tane_filter_call
	testb	%al, %al
	movq	REGS_RAX(%rsp), %rax
	jnz	.Lreturned\@
	RELOAD_CALL
	jmp	.Lallowed\@
#endif
.Lnone\@:
	movq	$-ENOSYS, %rax
	jmp	.Lreturned\@
.Lend\@:
	SHOW_CALL
	movq	%rax, %rdi
	movq	%rsp, %rsi
	call	tane_end_call
	jmp	.Ldone\@
	.popsection
	.endm

/* struct tane_exit tane_gate_call(): registers as host.h says */
SYM_FUNC_START(tane_gate_call)
	PARK
	movq	%rsp, VCPU(HOST_SP)
	movq	VCPU(KERNEL_SP), %rsp
	subq	$CALL_FRAME, %rsp
	KEEP_CALL
	movq	VCPU(SWITCHES), %rbx
	DO_CALL
	/*
	 * No task switch since, on the same CPU, whose number is in there: the
	 * host's frame is ours.
	 */
	cmpq	VCPU(SWITCHES), %rbx
	jne	tane_gate_switched
	movq	VCPU(HOST_SP), %rsp
	xorl	%edx, %edx
	UNPARK
	ret
SYM_FUNC_END(tane_gate_call)

SYM_CODE_START_LOCAL(tane_gate_switched)
	/*
	 * Another host thread may be inside by now, or the same one for another
	 * reason. Leave the result in the slot and go on as if resumed from the
	 * parked frame, which this stack still ends in.
	 */
	movq	%rax, %rdi
	call	tane_complete
	addq	$CALL_FRAME, %rsp
	movl	$1, %eax		/* tane_leave() returns 1: completed */
	UNPARK
	ret
SYM_CODE_END(tane_gate_switched)

/* The program's, all but rsp and its result. */
	.macro RESTORE_REGISTERS
	movq	CALLER_REG(RBP), %rbp
	movq	CALLER_REG(R12), %r12
	movq	CALLER_REG(R13), %r13
	movq	CALLER_REG(R14), %r14
	movq	CALLER_REG(R15), %r15
	movq	CALLER_REG(RDI), %rdi
	movq	CALLER_REG(RSI), %rsi
	movq	CALLER_REG(RDX), %rdx
	movq	CALLER_REG(R10), %r10
	movq	CALLER_REG(R8), %r8
	movq	CALLER_REG(R9), %r9
	movq	CALLER_REG(RBX), %rbx
	movq	CALLER_REG(EFLAGS), %r11
	movq	CALLER_REG(RIP), %rcx
	.endm

/*
 * A program's or a module's call: registers as host.h says. Who keeps a CPU and
 * how others get it is the host's to know (host/src/bias.rs); here is the owner's
 * part of it.
 */
SYM_CODE_START(tane_gate_program)
	movq	%rcx, CALLER_REG(RIP)
	movq	%r11, CALLER_REG(EFLAGS)
	movq	%rsp, CALLER_REG(RSP)
	movq	%rax, CALLER_REG(ORIG_RAX)
	movq	%rdi, CALLER_REG(RDI)
	movq	%rsi, CALLER_REG(RSI)
	movq	%rdx, CALLER_REG(RDX)
	movq	%r10, CALLER_REG(R10)
	movq	%r8, CALLER_REG(R8)
	movq	%r9, CALLER_REG(R9)
	movq	%rbx, CALLER_REG(RBX)
	movq	%rbp, CALLER_REG(RBP)
	movq	%r12, CALLER_REG(R12)
	movq	%r13, CALLER_REG(R13)
	movq	%r14, CALLER_REG(R14)
	movq	%r15, CALLER_REG(R15)
	cld
	/* Inside, then whose it is: who takes it away looks in the other order. */
	movq	CALLER(SLOT), %r11
	movl	$1, THREAD_INSIDE(%r11)
	cmpq	%r11, VCPU(BIAS)
	jne	.Lnot_kept
	movq	CALLER(STACK), %rcx
	movq	%rcx, VCPU(HOST_SP)
	movq	VCPU(KERNEL_SP), %rsp
	subq	$CALL_FRAME, %rsp
	KEEP_CALL
	movq	VCPU(SWITCHES), %rbx
	DO_CALL
	cmpq	VCPU(SWITCHES), %rbx
	jne	tane_gate_switched
	/* Off the kernel's stack, which may be another's next. */
	movq	CALLER_REG(RSP), %rsp
	movq	CALLER(SLOT), %rcx
	movl	$0, THREAD_INSIDE(%rcx)
	xorq	VCPU(BIAS), %rcx
	orq	VCPU(PENDING), %rcx
	movl	VCPU(KICKS), %edx
	orq	%rdx, %rcx
	jnz	.Ldisturbed
	cmpq	$0, CALLER(SAVED)
	jne	.Lvectors
	RESTORE_REGISTERS
	jmp	*%rcx

.Lnot_kept:
	movl	$0, THREAD_INSIDE(%r11)
	movl	$EXIT_OUTSIDE, %edx
	jmp	tane_program_left
.Ldisturbed:
	xorl	%edx, %edx		/* TANE_EXIT_RETURNED */
	/* rax and rdx: struct tane_exit */
SYM_INNER_LABEL(tane_program_left, SYM_L_GLOBAL)
	movq	CALLER(STACK), %rsp
	pushq	%rax
	pushq	%rdx
	movq	CALLER(SELF), %rdi
	call	tane_save_vectors
	popq	%rdx
	popq	%rsi
	movq	CALLER(SELF), %rdi
	call	*CALLER(SERVE)
.Lvectors:
	movq	CALLER(STACK), %rsp
	pushq	%rax
	subq	$8, %rsp
	movq	CALLER(SELF), %rdi
	call	tane_restore_vectors
	addq	$8, %rsp
	popq	%rax
	RESTORE_REGISTERS
	movq	CALLER_REG(RSP), %rsp
	jmp	*%rcx
SYM_CODE_END(tane_gate_program)

/* long tane_leave(u64 reason): park here, go on in the host */
SYM_FUNC_START(tane_leave)
	PARK
	movq	%rsp, VCPU(KERNEL_SP)
	movq	VCPU(HOST_SP), %rsp
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

#ifdef CONFIG_SMP
/* A CPU's first instruction each time it comes: that of its idle task. */
SYM_CODE_START(tane_ret_from_online)
	call	tane_start_secondary
	ud2
SYM_CODE_END(tane_ret_from_online)
#endif

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

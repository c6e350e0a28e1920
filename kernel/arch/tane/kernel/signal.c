// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signals of programs, in x86-64's frames: the program's own handlers, its libc
 * and its unwinder read and change them.
 */
#include <linux/ptrace.h>
#include <linux/resume_user_mode.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/syscalls.h>
#include <asm/machine.h>
#include <asm/processor-flags.h>
#include <asm/program.h>
#include <asm/ucontext.h>
#include "xstate.h"

/* What lies on the stack when a handler begins; vector registers above it. */
struct tane_sigframe {
	char __user *pretcode;
	struct ucontext uc;
	struct siginfo info;
};

#define FRAME_ALIGNMENT	16
#define XSTATE_ALIGNMENT	64

/* Flags that a program may change. */
#define FIX_EFLAGS	(X86_EFLAGS_AC | X86_EFLAGS_OF | \
			 X86_EFLAGS_DF | X86_EFLAGS_TF | X86_EFLAGS_SF | \
			 X86_EFLAGS_ZF | X86_EFLAGS_AF | X86_EFLAGS_PF | \
			 X86_EFLAGS_CF | X86_EFLAGS_RF)

/* As a processor has them after reset. */
void tane_init_xstate(struct tane_program *program)
{
	struct tane_xstate *xstate = (struct tane_xstate *)program->xstate;

	xstate->fx.mxcsr = MXCSR_DEFAULT;
	xstate->present = 0;
	xstate->compacted = 0;
	memset(xstate->reserved, 0, sizeof(xstate->reserved));
}

static unsigned long tane_xstate_frame_size(void)
{
	return current->thread.program->xstate_size + FP_XSTATE_MAGIC2_SIZE;
}

/* AT_MINSIGSTKSZ */
unsigned long tane_signal_frame_size(void)
{
	return tane_xstate_frame_size() + XSTATE_ALIGNMENT +
	       sizeof(struct tane_sigframe) + FRAME_ALIGNMENT;
}

static bool tane_save_xstate(char __user *to)
{
	struct tane_program *program = current->thread.program;
	u32 size = program->xstate_size;
	struct _fpx_sw_bytes words = {
		.magic1 = FP_XSTATE_MAGIC1,
		.extended_size = size + FP_XSTATE_MAGIC2_SIZE,
		.xfeatures = program->xfeatures,
		.xstate_size = size,
	};

	return !copy_to_user(to, (void *)program->xstate, size) &&
	       !copy_to_user(to + offsetof(struct _fpstate_64, sw_reserved),
			     &words, sizeof(words)) &&
	       !put_user(FP_XSTATE_MAGIC2, (u32 __user *)(to + size));
}

/*
 * What a program has put into a frame may be anything; the processor refuses to
 * load some of it.
 */
static bool tane_restore_xstate(const char __user *from)
{
	struct tane_program *program = current->thread.program;
	struct tane_xstate *xstate = (struct tane_xstate *)program->xstate;
	u32 mask = xstate->fx.mxcsr_mask ?: MXCSR_MASK_DEFAULT;
	u32 size = program->xstate_size, magic2;
	struct _fpx_sw_bytes words;

	if (!from) {
		tane_init_xstate(program);
		return true;
	}
	if (copy_from_user(&words,
			   from + offsetof(struct _fpstate_64, sw_reserved),
			   sizeof(words)))
		return false;
	if (words.magic1 == FP_XSTATE_MAGIC1 && words.xstate_size == size &&
	    !get_user(magic2, (const u32 __user *)(from + size)) &&
	    magic2 == FP_XSTATE_MAGIC2) {
		if (copy_from_user(xstate, from, size))
			return false;
		xstate->present &= program->xfeatures & words.xfeatures;
	} else {
		if (copy_from_user(xstate, from, FXSAVE_SIZE))
			return false;
		xstate->present = XSTATE_LEGACY;
	}
	xstate->compacted = 0;
	memset(xstate->reserved, 0, sizeof(xstate->reserved));
	xstate->fx.mxcsr_mask = mask;
	if (xstate->fx.mxcsr & ~mask) {
		tane_init_xstate(program);
		return false;
	}
	return true;
}

static void tane_save_registers(struct sigcontext_64 *sc, struct pt_regs *regs,
				void __user *xstate, sigset_t *mask)
{
	struct thread_struct *thread = &current->thread;

	*sc = (struct sigcontext_64) {
		.r8 = regs->r8, .r9 = regs->r9, .r10 = regs->r10,
		.r11 = regs->r11, .r12 = regs->r12, .r13 = regs->r13,
		.r14 = regs->r14, .r15 = regs->r15, .di = regs->rdi,
		.si = regs->rsi, .bp = regs->rbp, .bx = regs->rbx,
		.dx = regs->rdx, .ax = regs->rax, .cx = regs->rcx,
		.sp = regs->rsp, .ip = regs->rip, .flags = regs->eflags,
		.cs = regs->cs, .ss = regs->ss,
		.err = thread->error_code, .trapno = thread->trap_nr,
		.cr2 = thread->cr2, .oldmask = mask->sig[0],
		.fpstate = (u64)xstate,
	};
}

static bool tane_restore_registers(struct pt_regs *regs,
				   struct sigcontext_64 __user *from)
{
	struct sigcontext_64 sc;

	/* An interrupted call that would go on does not. */
	current->restart_block.fn = do_no_restart_syscall;
	if (copy_from_user(&sc, from, offsetof(struct sigcontext_64, reserved1)))
		return false;
	regs->r8 = sc.r8;
	regs->r9 = sc.r9;
	regs->r10 = sc.r10;
	regs->r11 = sc.r11;
	regs->r12 = sc.r12;
	regs->r13 = sc.r13;
	regs->r14 = sc.r14;
	regs->r15 = sc.r15;
	regs->rdi = sc.di;
	regs->rsi = sc.si;
	regs->rbp = sc.bp;
	regs->rbx = sc.bx;
	regs->rdx = sc.dx;
	regs->rax = sc.ax;
	regs->rcx = sc.cx;
	regs->rsp = sc.sp;
	regs->rip = sc.ip;
	regs->eflags = (regs->eflags & ~FIX_EFLAGS) | (sc.flags & FIX_EFLAGS);
	/* 64-bit code only. */
	regs->cs = USER_CS;
	regs->ss = USER_DS;
	regs->orig_rax = -1;
	return tane_restore_xstate((const char __user *)sc.fpstate);
}

static struct tane_sigframe __user *tane_place_frame(struct ksignal *ksig,
						     struct pt_regs *regs,
						     char __user **xstate)
{
	bool nested = on_sig_stack(regs->rsp), entering = false;
	unsigned long sp = regs->rsp - 128;	/* the red zone */

	if ((ksig->ka.sa.sa_flags & SA_ONSTACK) && !sas_ss_flags(sp)) {
		sp = current->sas_ss_sp + current->sas_ss_size;
		entering = true;
	}
	sp = round_down(sp - tane_xstate_frame_size(), XSTATE_ALIGNMENT);
	*xstate = (char __user *)sp;
	sp = round_down(sp - sizeof(struct tane_sigframe), FRAME_ALIGNMENT) - 8;
	if ((nested || entering) && !__on_sig_stack(sp))
		return NULL;
	return (struct tane_sigframe __user *)sp;
}

static int tane_make_frame(struct ksignal *ksig, struct pt_regs *regs)
{
	struct ucontext uc = {
		.uc_flags = UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
	};
	struct tane_sigframe __user *frame;
	sigset_t *mask = sigmask_to_save();
	char __user *xstate;

	if (!(ksig->ka.sa.sa_flags & SA_RESTORER))
		return -EFAULT;
	frame = tane_place_frame(ksig, regs, &xstate);
	if (!frame || !tane_save_xstate(xstate))
		return -EFAULT;
	tane_save_registers(&uc.uc_mcontext, regs, xstate, mask);
	uc.uc_sigmask = *mask;
	if (copy_to_user(&frame->uc, &uc, sizeof(uc)) ||
	    __save_altstack(&frame->uc.uc_stack, regs->rsp) ||
	    put_user(ksig->ka.sa.sa_restorer,
		     (__sigrestore_t __user *)&frame->pretcode))
		return -EFAULT;
	if ((ksig->ka.sa.sa_flags & SA_SIGINFO) &&
	    copy_siginfo_to_user(&frame->info, &ksig->info))
		return -EFAULT;

	regs->rdi = ksig->sig;
	regs->rsi = (unsigned long)&frame->info;
	regs->rdx = (unsigned long)&frame->uc;
	regs->rax = 0;
	regs->rip = (unsigned long)ksig->ka.sa.sa_handler;
	regs->rsp = (unsigned long)frame;
	regs->eflags &= ~(X86_EFLAGS_DF | X86_EFLAGS_RF | X86_EFLAGS_TF);
	tane_init_xstate(current->thread.program);
	return 0;
}

/* The instruction that asked for the call is two bytes before rip. */
static void tane_ask_again(struct pt_regs *regs, unsigned long nr)
{
	regs->rax = nr;
	regs->rip -= 2;
}

static void tane_handle(struct ksignal *ksig, struct pt_regs *regs)
{
	bool stepping;

	if (regs->orig_rax != -1UL) {
		switch ((long)regs->rax) {
		case -ERESTART_RESTARTBLOCK:
		case -ERESTARTNOHAND:
			regs->rax = -EINTR;
			break;
		case -ERESTARTSYS:
			if (!(ksig->ka.sa.sa_flags & SA_RESTART)) {
				regs->rax = -EINTR;
				break;
			}
			fallthrough;
		case -ERESTARTNOINTR:
			tane_ask_again(regs, regs->orig_rax);
			break;
		}
	}
	/* A tracer that steps comes to the handler, and what it returns to is not stepped. */
	stepping = test_thread_flag(TIF_SINGLESTEP);
	if (stepping)
		user_disable_single_step(current);
	signal_setup_done(tane_make_frame(ksig, regs), ksig, stepping);
}

/* On the way back to a program: its handler, or its call again, or its end. */
void tane_do_signal(struct pt_regs *regs)
{
	struct ksignal ksig;

	if (get_signal(&ksig)) {
		tane_handle(&ksig, regs);
		/* What comes next interrupts the handler, not the call. */
		regs->orig_rax = -1;
		return;
	}
	if (regs->orig_rax != -1UL) {
		switch ((long)regs->rax) {
		case -ERESTARTNOHAND:
		case -ERESTARTSYS:
		case -ERESTARTNOINTR:
			tane_ask_again(regs, regs->orig_rax);
			regs->orig_rax = -1;
			break;
		case -ERESTART_RESTARTBLOCK:
			tane_ask_again(regs, __NR_restart_syscall);
			regs->orig_rax = -1;
			break;
		}
	}
	restore_saved_sigmask();
}

SYSCALL_DEFINE0(rt_sigreturn)
{
	struct pt_regs *regs = current_pt_regs();
	struct tane_sigframe __user *frame;
	sigset_t mask;

	if (!current->thread.program)
		return -ENOSYS;
	/* The handler's return has taken pretcode off the stack. */
	frame = (struct tane_sigframe __user *)(regs->rsp - sizeof(long));
	if (copy_from_user(&mask, &frame->uc.uc_sigmask, sizeof(mask)))
		goto bad;
	set_current_blocked(&mask);
	if (restore_altstack(&frame->uc.uc_stack) ||
	    !tane_restore_registers(regs, &frame->uc.uc_mcontext))
		goto bad;
	return regs->rax;
bad:
	force_sig(SIGSEGV);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_PROCESSOR_H
#define _ASM_TANE_PROCESSOR_H

#include <asm/machine.h>
#include <asm/page.h>
#include <asm/program.h>
#include <asm/vcpu.h>

/* User addresses are those of the host process. */
#define TASK_SIZE_MAX		((1UL << 47) - PAGE_SIZE)
#define STACK_TOP_MAX		TASK_SIZE_MAX

#ifdef CONFIG_TANE_RUN
/* Whether the current task runs a program, in the window that is for them. */
#define tane_runs_program()	(current->thread.program)
#else
#define tane_runs_program()	false
#endif

#define TASK_SIZE \
	(tane_runs_program() ? tane_boot->program_end : TASK_SIZE_MAX)
/*
 * A program's own region: its code if that can be anywhere, and its heap, what
 * mmap() finds room for, and its stack, each with so much room that it meets none
 * of the others.
 */
#define TANE_CODE_OFFSET	(1UL << 32)
#define TANE_MMAP_OFFSET	(1UL << 37)
#define STACK_TOP \
	(tane_runs_program() ? tane_home(current->mm) + TANE_REGION_SIZE : \
			       tane_boot->user_end)
#define TASK_UNMAPPED_BASE						\
	(tane_runs_program() ? tane_home(current->mm) + TANE_MMAP_OFFSET : \
			       tane_boot->user_start)

/* Where mmap() may put something: the window that the host reserved. */
#define arch_get_mmap_end(addr, len, flags)				\
	((addr) && tane_runs_program() ? TASK_SIZE : STACK_TOP)
#define arch_get_mmap_base(addr, base)		(base)

struct thread_struct {
	unsigned long sp;		/* parked kernel stack */
	struct tane_thread *slot;	/* the host thread that this task serves */
	struct tane_thread *new_slot;	/* that of the thread being attached */
	unsigned long fault_address;
	unsigned long window;		/* 0, or where all user memory lies */
	unsigned long new_window;	/* that of the thread being attached */
	u32 process;			/* of the host, where its memory is; 0: not shared */
	u32 new_process;		/* that of the process being forked */
	bool roams;			/* it needs none of its memory: any process will do */
#ifdef CONFIG_TANE_RUN
	struct tane_program *program;	/* from its first execve() on */
	unsigned long cr2;		/* of its last trap, for signal frames */
	unsigned long error_code;
	unsigned long trap_nr;
	bool called_in;			/* the host knows of its signals */
	bool outside;			/* its host thread may be in the program's code */
	bool away;			/* it does without its memory */
	u64 ran;			/* ns of its program's code, as its host thread says */
#endif
};

#define INIT_THREAD	{ }

#define task_pt_regs(task) \
	((struct pt_regs *)((unsigned long)task_stack_page(task) + \
			    THREAD_SIZE) - 1)
/* Of a program in a call: where it goes on. Of other threads nothing is known. */
#ifdef CONFIG_TANE_RUN
#define KSTK_EIP(task) \
	((task)->thread.program ? task_pt_regs(task)->rip : 0UL)
#define KSTK_ESP(task) \
	((task)->thread.program ? task_pt_regs(task)->rsp : 0UL)
#else
#define KSTK_EIP(task)	(0UL)
#define KSTK_ESP(task)	(0UL)
#endif

void start_thread(struct pt_regs *regs, unsigned long pc, unsigned long sp);

unsigned long __get_wchan(struct task_struct *task);

/* So often a wait looks before it lets another thread of the host run. */
#define TANE_RELAX_YIELD	1024

#ifdef BUILD_VDSO
/* In a program. */
static __always_inline void cpu_relax(void)
{
	asm volatile("rep; nop" ::: "memory");
}
#else
/*
 * What we wait for may be an interrupt of this CPU, so look. Or it may be up to
 * another CPU, whose thread the host may have taken off its processor in the
 * middle of a critical section.
 */
static __always_inline void cpu_relax(void)
{
	asm volatile("rep; nop" ::: "memory");
	if (unlikely(tane_vcpu_get(pending)) && tane_vcpu_get(irq_enabled))
		tane_irq_poll();
#ifdef CONFIG_SMP
	tane_vcpu_set(relaxed, tane_vcpu_get(relaxed) + 1);
	/* Whom we wait for may not have been woken yet: the host puts that off. */
	if (unlikely(tane_vcpu_get(kicks) ||
		     !(tane_vcpu_get(relaxed) % TANE_RELAX_YIELD)))
		tane_wait_on();
#endif
}
#endif

static inline void prefetch(const void *x)
{
	asm volatile("prefetcht0 %0" : : "m" (*(const char *)x));
}

static inline void prefetchw(const void *x)
{
	asm volatile("prefetchw %0" : : "m" (*(const char *)x));
}

#define ARCH_HAS_PREFETCH
#define ARCH_HAS_PREFETCHW

#endif

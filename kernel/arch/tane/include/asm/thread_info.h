/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_THREAD_INFO_H
#define _ASM_TANE_THREAD_INFO_H

#include <linux/const.h>
#include <asm/page.h>

#define THREAD_SIZE_ORDER	CONFIG_TANE_THREAD_ORDER
#define THREAD_SIZE		(PAGE_SIZE << THREAD_SIZE_ORDER)

#ifndef __ASSEMBLY__

struct thread_info {
	unsigned long flags;
	int preempt_count;
#ifdef CONFIG_SMP
	u32 cpu;
#endif
};

#define INIT_THREAD_INFO(tsk)				\
{							\
	.preempt_count = INIT_PREEMPT_COUNT,		\
}

#endif

#define TIF_NOTIFY_RESUME	1
#define TIF_SIGPENDING		2
#define TIF_NEED_RESCHED	3
#define TIF_NOTIFY_SIGNAL	4
#define TIF_RESTORE_SIGMASK	5
#define TIF_MEMDIE		6
#define TIF_SYSCALL_TRACE	7	/* no tracer sees a host thread */
#define TIF_SECCOMP		8	/* where the image has filters of calls */
#ifdef CONFIG_TANE_RUN
#define TIF_SYSCALL_EMU		9	/* its calls are its tracer's to make */
#define TIF_SINGLESTEP		10
#define TIF_FORCED_TF		11	/* the trap flag is its tracer's */
#endif

#define _TIF_NOTIFY_RESUME	(1 << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING		(1 << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED	(1 << TIF_NEED_RESCHED)
#define _TIF_NOTIFY_SIGNAL	(1 << TIF_NOTIFY_SIGNAL)
#define _TIF_SECCOMP		(1 << TIF_SECCOMP)
#ifdef CONFIG_TANE_RUN
#define _TIF_SYSCALL_TRACE	(1 << TIF_SYSCALL_TRACE)
#define _TIF_SYSCALL_EMU	(1 << TIF_SYSCALL_EMU)
#define _TIF_SINGLESTEP		(1 << TIF_SINGLESTEP)

/* What stops at the end of a program's call. */
#define _TIF_CALL_TRACED	(_TIF_SYSCALL_TRACE | _TIF_SINGLESTEP)
#else
#define _TIF_CALL_TRACED	0
#endif

/* What a program's thread must come in for, with its registers. */
#define _TIF_SIGNALS	(_TIF_SIGPENDING | _TIF_NOTIFY_SIGNAL)

#define _TIF_WORK_MASK	(_TIF_NOTIFY_RESUME | _TIF_SIGPENDING | \
			 _TIF_NEED_RESCHED | _TIF_NOTIFY_SIGNAL)

/* With any of these a call is not over when its function is. */
#define _TIF_CALL_MASK	(_TIF_WORK_MASK | _TIF_CALL_TRACED)

#endif

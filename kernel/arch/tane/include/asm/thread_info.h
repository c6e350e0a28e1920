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

#define _TIF_NOTIFY_RESUME	(1 << TIF_NOTIFY_RESUME)
#define _TIF_SIGPENDING		(1 << TIF_SIGPENDING)
#define _TIF_NEED_RESCHED	(1 << TIF_NEED_RESCHED)
#define _TIF_NOTIFY_SIGNAL	(1 << TIF_NOTIFY_SIGNAL)
#define _TIF_SECCOMP		(1 << TIF_SECCOMP)

/* What a program's thread must come in for, with its registers. */
#define _TIF_SIGNALS	(_TIF_SIGPENDING | _TIF_NOTIFY_SIGNAL)

#define _TIF_WORK_MASK	(_TIF_NOTIFY_RESUME | _TIF_SIGPENDING | \
			 _TIF_NEED_RESCHED | _TIF_NOTIFY_SIGNAL)

#endif

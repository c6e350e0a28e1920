/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine that the host program provides: the host operations, one inline
 * function each, and what the parts of the port call of one another.
 */
#ifndef _ASM_TANE_MACHINE_H
#define _ASM_TANE_MACHINE_H

#include <linux/types.h>
#include <uapi/asm/host.h>

struct pt_regs;
struct task_struct;
struct mm_struct;

extern struct tane_boot *tane_boot;

/* kernel/host_call.S: call op(host, a, b, c, d) on the host thread's stack. */
long tane_host_call(void *op, u64 a, u64 b, u64 c, u64 d);

#define tane_host(op, a, b, c, d)					\
	tane_host_call((void *)tane_boot->ops->op, (u64)(a), (u64)(b),	\
		       (u64)(c), (u64)(d))

/* Leaf operations need no other stack. */
static inline void tane_yield(void)
{
	tane_boot->ops->yield(tane_boot->ops->host);
}

static inline u64 tane_monotonic(void)
{
	return tane_boot->ops->monotonic(tane_boot->ops->host);
}

static inline u64 tane_realtime(void)
{
	return tane_boot->ops->realtime(tane_boot->ops->host);
}

static inline void tane_kick(u32 cpu)
{
	tane_boot->ops->kick(tane_boot->ops->host, cpu);
}

static inline void tane_wake(struct tane_thread *thread)
{
	tane_boot->ops->wake(tane_boot->ops->host, thread);
}

int tane_random(void *buf, size_t len);

/* Called by kernel/gate.S */
void tane_start_kernel(struct tane_boot *boot);
long tane_syscall(long nr, const u64 *args);
void tane_complete(long ret);
void tane_interrupt(struct pt_regs *regs);
void tane_invalid(struct pt_regs *regs, unsigned long signal);

/* kernel/gate.S, kernel/entry.c */
long tane_leave(u64 reason);
void tane_ret_from_fork(void);
void tane_user_mode(void) __noreturn;
struct task_struct *tane_switch_stacks(unsigned long *prev_sp,
				       unsigned long next_sp,
				       struct task_struct *prev);
void tane_handle_requests(void);
void tane_dead(u32 code, const char *text) __noreturn;
void tane_stop(void) __noreturn;
void tane_wait_on(void);

/* kernel/irq.c */
void tane_irq_poll(void);
extern void (*tane_hotplug)(void);

/* kernel/time.c */
extern u64 tane_started;
void tane_timer_interrupt(void);

/* kernel/smp.c */
void tane_smp_interrupt(unsigned int irq);

/* kernel/traps.c */
void tane_oops(struct pt_regs *regs, const char *what, unsigned long address);

/* mm/fault.c */
void tane_fault(struct pt_regs *regs, unsigned long address, unsigned long error);
long tane_user_fault(unsigned long address, unsigned long error);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The machine that the host program provides: the host operations, one inline
 * function each, and what the parts of the port call of one another.
 */
#ifndef _ASM_TANE_MACHINE_H
#define _ASM_TANE_MACHINE_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <asm/vcpu.h>

struct kernel_clone_args;
struct pt_regs;
struct task_struct;
struct mm_struct;

extern struct tane_boot *tane_boot;

/* kernel/host_call.S: call op(host, a, b, c, d) on the host thread's stack. */
long tane_host_call(void *op, u64 a, u64 b, u64 c, u64 d);

#define tane_host(op, a, b, c, d)					\
	tane_host_call((void *)tane_boot->ops->op, (u64)(a), (u64)(b),	\
		       (u64)(c), (u64)(d))

/* kernel/fpu.c: of a thread whose program is to find them as they were. */
void tane_save_vectors(struct tane_caller *caller);
void tane_restore_vectors(struct tane_caller *caller);

static __always_inline void tane_spare_vectors(void)
{
	if (unlikely(tane_vcpu_get(caller)))
		tane_save_vectors((struct tane_caller *)tane_vcpu_get(caller));
}

/* Leaf operations need no other stack. */
static inline void tane_yield(void)
{
	tane_spare_vectors();
	tane_boot->ops->yield(tane_boot->ops->host);
}

static inline u64 tane_monotonic(void)
{
	tane_spare_vectors();
	return tane_boot->ops->monotonic(tane_boot->ops->host);
}

static inline u64 tane_realtime(void)
{
	tane_spare_vectors();
	return tane_boot->ops->realtime(tane_boot->ops->host);
}

static inline void tane_kick(u32 cpu)
{
	tane_spare_vectors();
	tane_boot->ops->kick(tane_boot->ops->host, cpu);
}

static inline void tane_wake(struct tane_thread *thread)
{
	tane_spare_vectors();
	tane_boot->ops->wake(tane_boot->ops->host, thread);
}

int tane_random(void *buf, size_t len);

/* Called by kernel/gate.S */
void tane_start_kernel(struct tane_boot *boot);
void tane_begin_call(void);
void tane_mask_call(void);
long tane_end_call(long ret, const struct pt_regs *regs);
void tane_complete(long ret);
void tane_answer(struct tane_thread *slot, long ret);
void tane_interrupt(struct pt_regs *regs);
void tane_invalid(struct pt_regs *regs, unsigned long signal);

/* What PARK in gate.S pushes: the end of every parked stack. */
struct tane_frame {
	unsigned long pad;
	unsigned long r15, r14, r13, r12, rbx, rbp;
	unsigned long ret;
};

/* kernel/process.c: an empty stack that goes on at resume, 16-byte aligned */
struct tane_frame *tane_park(struct task_struct *task, void (*resume)(void));

/* kernel/gate.S, kernel/entry.c */
long tane_leave(u64 reason);
void tane_ret_from_fork(void);
void tane_ret_from_online(void);
void tane_user_mode(void) __noreturn;
struct task_struct *tane_switch_stacks(unsigned long *prev_sp,
				       unsigned long next_sp,
				       struct task_struct *prev);
void tane_handle_requests(void);
void tane_dead(u32 code, const char *text) __noreturn;
void tane_stop(void) __noreturn;
void tane_wait_on(void);

/* kernel/turns.c */
bool tane_enter_window(struct tane_thread *slot);
bool tane_idle_window(void);

/* kernel/program.c */
bool tane_is_called_in(void);
long tane_spawn(struct tane_thread *slot);
long tane_program_request(struct tane_thread *slot);
long tane_leave_to_program(long ret);
int tane_copy_program(struct task_struct *p,
		      const struct kernel_clone_args *args);

/* kernel/shared.c */
void tane_come_home(void);
void tane_forget_memory(struct task_struct *task);
void tane_end_slot(struct task_struct *task);
long tane_fork(struct tane_thread *slot, u32 process);
long tane_reap(u32 process, int status);

/* kernel/signal.c */
void tane_do_signal(struct pt_regs *regs);

/* kernel/irq.c */
void tane_irq_poll(void);
extern void (*tane_hotplug)(void);

/* kernel/time.c */
extern u64 tane_started;
void tane_timer_interrupt(void);

/* kernel/smp.c */
void tane_smp_interrupt(unsigned int irq);
void tane_start_secondary(void);

/* kernel/traps.c */
void tane_oops(struct pt_regs *regs, const char *what, unsigned long address);

/* mm/fault.c */
void tane_fault(struct pt_regs *regs, unsigned long address, unsigned long error);
long tane_user_fault(unsigned long address, unsigned long error);
void tane_program_fault(struct pt_regs *regs, unsigned long address,
			unsigned long error);

#endif

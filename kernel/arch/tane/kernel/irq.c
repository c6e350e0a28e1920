// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts are bits in tane_vcpu.pending. They are looked at where interrupts
 * get enabled, in cpu_relax(), on the way in and out of the gate, and, when a
 * thread does none of that for long, by a signal of the host that sends it
 * through tane_trap_interrupt.
 */
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/sched.h>
#include <asm/irq_regs.h>
#include <asm/machine.h>
#include <asm/ptrace.h>

/* What the tick sees as interrupted: cs tells user mode from kernel mode. */
static struct pt_regs tane_user_regs = { .cs = 3 };
static struct pt_regs tane_kernel_regs;

void (*tane_hotplug)(void);

static void tane_handle_irq(unsigned int irq)
{
	switch (irq) {
	case TANE_IRQ_TIMER:
		tane_timer_interrupt();
		break;
	case TANE_IRQ_REQUEST:
		tane_handle_requests();
		break;
	case TANE_IRQ_RESCHEDULE:
		set_tsk_need_resched(current);
		break;
#ifdef CONFIG_SMP
	case TANE_IRQ_CALL:
		tane_smp_interrupt(irq);
		break;
#endif
	case TANE_IRQ_HOTPLUG:
		if (tane_hotplug)
			tane_hotplug();
		break;
	default:
		generic_handle_irq(irq);
	}
}

static void tane_heed_stop(void)
{
	if (unlikely(tane_vcpu_get(pending) & BIT_ULL(TANE_IRQ_STOP)))
		tane_stop();
}

static void tane_handle_pending(struct pt_regs *regs)
{
	struct tane_vcpu *vcpu = tane_vcpu();
	struct pt_regs *old = set_irq_regs(regs);
	unsigned long pending;
	unsigned int irq;

	irq_enter();
	while ((pending = READ_ONCE(vcpu->pending))) {
		/* Comes at any time, once: cleared with others it would be lost. */
		tane_heed_stop();
		tane_lower(vcpu, pending);
		for_each_set_bit(irq, &pending, 64)
			tane_handle_irq(irq);
	}
	irq_exit();
	set_irq_regs(old);
}

/*
 * A long wait, maybe with interrupts off. If this kernel has ended, what it
 * waits for may never come: an answer of a CPU that nobody enters any more, or
 * a lock whose holder has left for the last time.
 */
void tane_wait_on(void)
{
	tane_heed_stop();
	tane_yield();
}
EXPORT_SYMBOL(tane_wait_on);

/*
 * Whether what is interrupted is a host thread's task in user mode. in_user stays set
 * in calls by the fast way, which run below the frame that is parked; and a tick there
 * is none in user mode: RCU would take the call to use nothing that it protects.
 */
static bool tane_is_in_user(void)
{
	return tane_vcpu_get(in_user) &&
	       (u64)__builtin_frame_address(0) > tane_vcpu_get(kernel_sp);
}

/* With the flag just set. */
void tane_irq_poll(void)
{
	struct pt_regs *regs = tane_is_in_user() ? &tane_user_regs :
						   &tane_kernel_regs;

	do {
		tane_vcpu_set(irq_enabled, ARCH_IRQ_DISABLED);
		barrier();
		trace_hardirqs_off();
		tane_handle_pending(regs);
		trace_hardirqs_on();
		barrier();
		tane_vcpu_set(irq_enabled, ARCH_IRQ_ENABLED);
	} while (tane_vcpu_get(pending));
}
EXPORT_SYMBOL(tane_irq_poll);

/* An injected interrupt. The host found the flag set and took it. */
void tane_interrupt(struct pt_regs *regs)
{
	tane_irq_poll();
}

void __init init_IRQ(void)
{
	unsigned int irq;

	for (irq = TANE_IRQ_DEVICE(0); irq < NR_IRQS; irq++)
		irq_set_chip_and_handler(irq, &dummy_irq_chip,
					 handle_simple_irq);
}

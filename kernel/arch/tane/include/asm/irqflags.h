/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interrupt flag is a word of the virtual CPU. Nothing interrupts by
 * itself: whoever enables interrupts looks at the pending ones.
 */
#ifndef _ASM_TANE_IRQFLAGS_H
#define _ASM_TANE_IRQFLAGS_H

#include <linux/compiler.h>
#include <asm/vcpu.h>

#define ARCH_IRQ_DISABLED	0
#define ARCH_IRQ_ENABLED	1

void tane_irq_poll(void);

#define arch_local_save_flags arch_local_save_flags
static __always_inline unsigned long arch_local_save_flags(void)
{
	return tane_vcpu_get(irq_enabled);
}

#define arch_local_irq_disable arch_local_irq_disable
static __always_inline void arch_local_irq_disable(void)
{
	tane_vcpu_set(irq_enabled, ARCH_IRQ_DISABLED);
	barrier();
}

#define arch_local_irq_enable arch_local_irq_enable
static __always_inline void arch_local_irq_enable(void)
{
	barrier();
	tane_vcpu_set(irq_enabled, ARCH_IRQ_ENABLED);
	if (unlikely(tane_vcpu_get(pending)))
		tane_irq_poll();
}

#define arch_local_irq_restore arch_local_irq_restore
static __always_inline void arch_local_irq_restore(unsigned long flags)
{
	if (flags)
		arch_local_irq_enable();
	else
		arch_local_irq_disable();
}

#define arch_local_irq_save arch_local_irq_save
static __always_inline unsigned long arch_local_irq_save(void)
{
	unsigned long flags = arch_local_save_flags();

	arch_local_irq_disable();
	return flags;
}

#include <asm-generic/irqflags.h>

#endif

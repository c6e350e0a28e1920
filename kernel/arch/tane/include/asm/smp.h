/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_SMP_H
#define _ASM_TANE_SMP_H

#ifdef CONFIG_SMP
#include <linux/cpumask.h>
#include <asm/vcpu.h>

#define raw_smp_processor_id()	tane_vcpu_get(cpu)

void arch_smp_send_reschedule(int cpu);
void arch_send_call_function_single_ipi(int cpu);
void arch_send_call_function_ipi_mask(const struct cpumask *mask);
#endif

/* kernel/hotplug.c */
int __cpu_disable(void);

/* The CPU that goes reports by itself that it is gone. */
static inline void __cpu_die(unsigned int cpu)
{
}

#endif

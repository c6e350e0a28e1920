/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The virtual CPU that this code runs on: struct tane_vcpu right below the GS
 * base. Only this header knows that; a host that needs GS for itself replaces it.
 * What lies at the GS base is the thread's: a program's or a module's own memory.
 */
#ifndef _ASM_TANE_VCPU_H
#define _ASM_TANE_VCPU_H

#define TANE_VCPU_AT	-4096

#ifndef __ASSEMBLY__
#include <linux/stddef.h>
#include <uapi/asm/host.h>

#define tane_vcpu_field(field) \
	(((volatile struct tane_vcpu __seg_gs *)TANE_VCPU_AT)->field)

#define tane_vcpu_get(field)		(tane_vcpu_field(field))
#define tane_vcpu_set(field, value)	(tane_vcpu_field(field) = (value))

/* Its address, good while the task stays on this CPU. */
static __always_inline struct tane_vcpu *tane_vcpu(void)
{
	return (struct tane_vcpu *)tane_vcpu_get(self);
}

/*
 * Interrupt bits of any virtual CPU. Locked in images for one CPU too, where
 * Linux's set_bit() is not: the host sets bits from its other threads.
 */
static __always_inline void tane_raise(struct tane_vcpu *vcpu, unsigned int irq)
{
	asm volatile("lock orq %1, %0" : "+m" (vcpu->pending)
		     : "r" (1ULL << irq) : "memory", "cc");
}

static __always_inline void tane_lower(struct tane_vcpu *vcpu, __u64 irqs)
{
	asm volatile("lock andq %1, %0" : "+m" (vcpu->pending)
		     : "r" (~irqs) : "memory", "cc");
}

#endif
#endif

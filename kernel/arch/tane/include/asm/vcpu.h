/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The virtual CPU that this code runs on: struct tane_vcpu at the GS base. Only
 * this header knows that; a host that needs GS for itself replaces it.
 */
#ifndef _ASM_TANE_VCPU_H
#define _ASM_TANE_VCPU_H

#include <linux/stddef.h>
#include <uapi/asm/host.h>

#define tane_vcpu_field(field) \
	(((volatile struct tane_vcpu __seg_gs *)0)->field)

#define tane_vcpu_get(field)		(tane_vcpu_field(field))
#define tane_vcpu_set(field, value)	(tane_vcpu_field(field) = (value))

/* Its address, good while the task stays on this CPU. */
static __always_inline struct tane_vcpu *tane_vcpu(void)
{
	return (struct tane_vcpu *)tane_vcpu_get(self);
}

#endif

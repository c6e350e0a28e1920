/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_IRQ_H
#define _ASM_TANE_IRQ_H

/* One Linux interrupt for each bit of tane_vcpu.pending. */
#define NR_IRQS 64

#include <asm-generic/irq.h>

#endif

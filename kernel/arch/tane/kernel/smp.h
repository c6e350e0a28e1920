/* SPDX-License-Identifier: GPL-2.0-only */
/* What smp.c and hotplug.c call of one another. */
#ifndef _TANE_SMP_H
#define _TANE_SMP_H

/* Set an interrupt bit of another CPU and see that somebody looks. */
void tane_send_ipi(unsigned int cpu, unsigned int irq);

#endif

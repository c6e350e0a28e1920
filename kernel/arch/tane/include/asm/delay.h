/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_DELAY_H
#define _ASM_TANE_DELAY_H

void __delay(unsigned long ns);
void __udelay(unsigned long us);
void __ndelay(unsigned long ns);

#define udelay(us)	__udelay(us)
#define ndelay(ns)	__ndelay(ns)

#endif

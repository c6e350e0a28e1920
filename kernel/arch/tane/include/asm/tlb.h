/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_TLB_H
#define _ASM_TANE_TLB_H

#include <asm/tlbflush.h>
#include <asm-generic/tlb.h>

#endif

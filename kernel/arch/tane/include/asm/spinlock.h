/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_SPINLOCK_H
#define _ASM_TANE_SPINLOCK_H

#include <asm/processor.h>
#include <asm-generic/spinlock.h>

#endif

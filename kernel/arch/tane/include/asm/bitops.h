/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_BITOPS_H
#define _ASM_TANE_BITOPS_H

/*
 * The instructions of 64-bit processors. Only here: elsewhere the symbol would
 * select code that uses vector registers or is for bare machines.
 */
#define CONFIG_X86_64 1
#include <x86/include/asm/bitops.h>
#undef CONFIG_X86_64

#endif

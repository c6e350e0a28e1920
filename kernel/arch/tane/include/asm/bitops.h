/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_BITOPS_H
#define _ASM_TANE_BITOPS_H

/*
 * The instructions of 64-bit processors. Only here, and in files of arch/x86 that
 * our Makefiles name: elsewhere the symbol would select code for bare machines.
 */
#ifndef CONFIG_X86_64
#define CONFIG_X86_64 1
#define TANE_X86_64_HERE
#endif
#include <x86/include/asm/bitops.h>
#ifdef TANE_X86_64_HERE
#undef CONFIG_X86_64
#undef TANE_X86_64_HERE
#endif

#endif

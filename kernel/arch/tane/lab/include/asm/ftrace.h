/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * x86's. The compiler leaves room for a call at the start of each function where
 * x86's would leave the call.
 */
#ifndef _ASM_TANE_LAB_FTRACE_H
#define _ASM_TANE_LAB_FTRACE_H

#define CC_USING_FENTRY
#include <x86/include/asm/ftrace.h>

/* xtask makes one instruction of that room after linking. */
#define ftrace_need_init_nop()	0

#endif

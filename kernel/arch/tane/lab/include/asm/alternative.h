/* SPDX-License-Identifier: GPL-2.0-only */
/* The port's, and what x86's probes and tracers ask of code that has alternatives. */
#ifndef _ASM_TANE_LAB_ALTERNATIVE_H
#define _ASM_TANE_LAB_ALTERNATIVE_H

#include <tane/include/asm/alternative.h>

#ifdef __ASSEMBLY__
	.macro ALTERNATIVE old, new, feature
	\old
	.endm
#else
/* Returns are plain ones. */
#define cpu_wants_rethunk_at(address)	false
extern char x86_return_thunk[];

static inline int alternatives_text_reserved(void *start, void *end)
{
	return 0;
}
#endif

#endif

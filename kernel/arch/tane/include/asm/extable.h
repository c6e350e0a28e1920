/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_EXTABLE_H
#define _ASM_TANE_EXTABLE_H

/* The layout that the macros of arch/x86's asm/asm.h write. */
struct exception_table_entry {
	int insn, fixup, data;
};

#define ARCH_HAS_RELATIVE_EXTABLE

#define swap_ex_entry_fixup(a, b, tmp, delta)		\
do {							\
	(a)->fixup = (b)->fixup + (delta);		\
	(b)->fixup = (tmp).fixup - (delta);		\
	(a)->data = (b)->data;				\
	(b)->data = (tmp).data;				\
} while (0)

struct pt_regs;
bool fixup_exception(struct pt_regs *regs);

#endif

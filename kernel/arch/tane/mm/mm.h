/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of this directory call of one another. */
#ifndef _TANE_MM_H
#define _TANE_MM_H

#include <linux/mm_types.h>
#include <asm/machine.h>

/* The window in which an address space is shown, if it is. */
static inline unsigned long tane_window_start(struct mm_struct *mm)
{
	return mm->context.program ? tane_boot->program_start :
				     tane_boot->user_start;
}

static inline unsigned long tane_window_end_of(struct mm_struct *mm)
{
	return mm->context.program ? tane_boot->program_end :
				     tane_boot->user_end;
}

bool tane_show_user(struct mm_struct *mm, unsigned long address, bool write);

/* vmlinux.lds.S: behind the constants. */
extern char __tane_rodata_end[];

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of this directory call of one another. */
#ifndef _TANE_MM_H
#define _TANE_MM_H

#include <linux/types.h>

struct mm_struct;

bool tane_show_user(struct mm_struct *mm, unsigned long address, bool write);

/* vmlinux.lds.S: behind the constants. */
extern char __tane_rodata_end[];

#endif

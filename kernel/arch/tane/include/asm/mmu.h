/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_MMU_H
#define _ASM_TANE_MMU_H

#include <linux/types.h>

/* The window of programs in pieces, of which each shows one program's memory. */
#define TANE_REGION_SHIFT	39
#define TANE_REGION_SIZE	(1UL << TANE_REGION_SHIFT)
#define TANE_REGIONS		128

typedef struct {
	/* Whether the host process shows it: all of it that is to be seen. */
	bool shown;
	bool program;	/* in the window of programs, not in that of mmap() */
#ifdef CONFIG_TANE_RUN
	u8 home;	/* the region in which mmap() looks for room */
	unsigned long vdso;	/* where its code is, since execve() */
	DECLARE_BITMAP(claims, TANE_REGIONS);	/* those where it has memory */
#endif
} mm_context_t;

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_MMU_H
#define _ASM_TANE_MMU_H

typedef struct {
	/*
	 * True for the one address space that the host process shows: that of
	 * its own threads. Others have page tables, but nobody runs in them.
	 */
	bool shown;
	bool program;	/* in the window of programs, not in that of mmap() */
} mm_context_t;

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_MMU_H
#define _ASM_TANE_MMU_H

typedef struct {
	/*
	 * True for the address spaces that the host process shows, one in each
	 * window: that of its own threads, and one of a program.
	 */
	bool shown;
	bool program;	/* in the window of programs, not in that of mmap() */
} mm_context_t;

#endif

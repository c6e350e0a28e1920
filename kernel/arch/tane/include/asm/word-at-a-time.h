/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_WORD_AT_A_TIME_H
#define _ASM_TANE_WORD_AT_A_TIME_H

#include <asm/asm.h>
#include <asm/page.h>

/* x86's algorithms, but its load wants an instruction decoder on a fault. */
#define load_unaligned_zeropad x86_load_unaligned_zeropad
#include <x86/include/asm/word-at-a-time.h>
#undef load_unaligned_zeropad

/*
 * Load a word whose last bytes may lie on a page that is not there: those read
 * as zero. Only a word that crosses a page can fault.
 */
static inline unsigned long load_unaligned_zeropad(const void *addr)
{
	unsigned long first, offset = (unsigned long)addr & (sizeof(first) - 1);
	unsigned long rest = 0;

	if (likely(((unsigned long)addr & ~PAGE_MASK) <=
		   PAGE_SIZE - sizeof(first)))
		return *(const unsigned long *)addr;

	first = *(const unsigned long *)((unsigned long)addr - offset);
	asm volatile("1: movq %1, %0\n"
		     "2:\n"
		     _ASM_EXTABLE(1b, 2b)
		     : "+r" (rest)
		     : "m" (*(const unsigned long *)
			    ((unsigned long)addr - offset + sizeof(first))));
	return first >> (offset * 8) | rest << (64 - offset * 8);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Modules lie between the kernel's text and its data (lab/code.c): an address there is
 * theirs, and so is its name.
 */
#ifndef _ASM_TANE_LAB_SECTIONS_H
#define _ASM_TANE_LAB_SECTIONS_H

#ifdef CONFIG_MODULES
#define __is_kernel tane_in_image
#include <asm-generic/sections.h>
#undef __is_kernel

extern char tane_made_start[], tane_made_end[];
bool is_module_address(unsigned long addr);

static inline bool __is_kernel(unsigned long addr)
{
	return tane_in_image(addr) &&
	       (addr < (unsigned long)tane_made_start ||
		addr >= (unsigned long)tane_made_end ||
		!is_module_address(addr));
}
#else
#include <asm-generic/sections.h>
#endif

#endif

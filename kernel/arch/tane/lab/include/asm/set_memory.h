/* SPDX-License-Identifier: GPL-2.0-only */
/* lab/code.c: what may be done with pages that execmem_alloc() has given. */
#ifndef _ASM_TANE_LAB_SET_MEMORY_H
#define _ASM_TANE_LAB_SET_MEMORY_H

int set_memory_ro(unsigned long address, int pages);
int set_memory_rw(unsigned long address, int pages);
int set_memory_x(unsigned long address, int pages);
int set_memory_nx(unsigned long address, int pages);

#define set_memory_rox set_memory_rox
int set_memory_rox(unsigned long address, int pages);

#endif

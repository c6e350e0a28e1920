/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code that changes. The host's map operation, asked for the place of a page in RAM
 * itself, changes its protection, and with TANE_PROT_EXEC among it returns when no
 * thread of the process goes on with instructions it has read before.
 */
#ifndef _ASM_TANE_LAB_CODE_H
#define _ASM_TANE_LAB_CODE_H

#include <linux/execmem.h>
#include <linux/types.h>

struct pt_regs;

/* Behind the text, and in reach of it. */
extern char tane_made_start[], tane_made_end[];

/* lab/code.c: the pages of a range, writable too or as code is otherwise. */
void tane_open_code(void *start, size_t len);
void tane_close_code(void *start, size_t len);

void *__wrap_execmem_alloc(enum execmem_type type, size_t size);
void __wrap_execmem_free(void *area);

/* lab/breakpoint.c: true if the int3 was one of ours. */
bool tane_breakpoint(struct pt_regs *regs);

#endif

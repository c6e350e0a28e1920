/* SPDX-License-Identifier: GPL-2.0-only */
/* vdso/map.c: what programs are shown of the time, and the code that reads it. */
#ifndef _ASM_TANE_VDSO_H
#define _ASM_TANE_VDSO_H

/* Before the code. */
#define TANE_VVAR_PAGES	2

#ifndef __ASSEMBLY__
extern const char tane_vdso_start[], tane_vdso_end[];
#endif

#endif

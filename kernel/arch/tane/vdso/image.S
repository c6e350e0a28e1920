/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>
#include <asm/page.h>

	.section .init.rodata, "a"
	.globl tane_vdso_start, tane_vdso_end
	.balign 8
tane_vdso_start:
	.incbin "arch/tane/vdso/vdso.so"
tane_vdso_end:

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_IO_H
#define _ASM_TANE_IO_H

#include <linux/types.h>
#include <asm/page.h>

/* There is no I/O memory; physical addresses are RAM. */
#define virt_to_phys(addr)	((phys_addr_t)__pa(addr))
#define phys_to_virt(addr)	__va(addr)

#include <asm-generic/io.h>

#endif

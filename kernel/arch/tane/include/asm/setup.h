/* SPDX-License-Identifier: GPL-2.0-only */
/* What setup_arch() calls of the port's other parts. */
#ifndef _ASM_TANE_SETUP_H
#define _ASM_TANE_SETUP_H

#include <uapi/asm/setup.h>

void tane_console_init(void);
void tane_init_panic(void);
void tane_init_memory(void);
void tane_init_cpus(void);
void tane_skip_initcalls(void);
void tane_setup_timer(void);

#endif

/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
#ifndef _UAPI_ASM_TANE_SETUP_H
#define _UAPI_ASM_TANE_SETUP_H

#include <asm/host.h>

#define COMMAND_LINE_SIZE TANE_CMDLINE_SIZE

#endif

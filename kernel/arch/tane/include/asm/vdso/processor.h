/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_VDSO_PROCESSOR_H
#define _ASM_TANE_VDSO_PROCESSOR_H

#include <asm/processor.h>

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Another architecture's modules of the same release are not ours. */
#ifndef _ASM_TANE_LAB_VERMAGIC_H
#define _ASM_TANE_LAB_VERMAGIC_H

#define MODULE_ARCH_VERMAGIC "tane "

#endif

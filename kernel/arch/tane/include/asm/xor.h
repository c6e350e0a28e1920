/* SPDX-License-Identifier: GPL-2.0-only */
/* RAID parity by AVX where there is AVX: measuring the others costs a millisecond. */
#ifndef _ASM_TANE_XOR_H
#define _ASM_TANE_XOR_H

#include <asm-generic/xor.h>
#include <asm/xor_avx.h>

#define XOR_SELECT_TEMPLATE(fastest)	AVX_SELECT(fastest)

#endif

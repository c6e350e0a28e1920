/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the host's processor can, and lets this process do: enough for the code
 * of arch/x86 that this port compiles.
 */
#ifndef _ASM_TANE_CPUFEATURE_H
#define _ASM_TANE_CPUFEATURE_H

#include <linux/types.h>
#include <asm/cpufeatures.h>

/* As arch/x86 numbers them; what asks for a model asks for Intel's. */
#define X86_VENDOR_INTEL	0

extern u32 tane_cpu_features[NCAPINTS];

void tane_detect_cpu(void);

static __always_inline bool boot_cpu_has(unsigned int feature)
{
	return tane_cpu_features[feature / 32] >> (feature % 32) & 1;
}

#define cpu_feature_enabled(feature)	boot_cpu_has(feature)
#define static_cpu_has(feature)		boot_cpu_has(feature)

#endif

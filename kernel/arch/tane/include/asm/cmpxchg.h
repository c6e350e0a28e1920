/* SPDX-License-Identifier: GPL-2.0-only */
#include <asm/cpufeature.h>	/* whether there is cmpxchg16b */
#include <x86/include/asm/cmpxchg.h>

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_PERCPU_H
#define _ASM_TANE_PERCPU_H

#ifdef CONFIG_SMP
#include <asm/vcpu.h>
#define __my_cpu_offset tane_vcpu_get(percpu_offset)
#endif

#include <asm-generic/percpu.h>

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* oci/seccomp.c: calls of programs that have filters. */
#ifndef _ASM_TANE_OCI_FILTER_H
#define _ASM_TANE_OCI_FILTER_H

#include <linux/types.h>

struct pt_regs;

/* Of a posted call: whether it is not made, since rax is its answer. */
bool tane_is_filtered(void);

/* Of the gate (kernel/gate.S), which has seen that there is a filter. */
bool tane_filter_call(struct pt_regs *call);

#endif

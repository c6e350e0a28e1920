/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_VDSO_VSYSCALL_H
#define _ASM_TANE_VDSO_VSYSCALL_H

#include <linux/timekeeper_internal.h>
#include <vdso/datapage.h>

extern struct vdso_data *tane_vdso_data;

#define __arch_get_k_vdso_data()	tane_vdso_data

#include <asm-generic/vdso/vsyscall.h>

#endif

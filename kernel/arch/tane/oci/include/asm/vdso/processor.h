/* SPDX-License-Identifier: GPL-2.0-only */
/* There is no vDSO: nothing in it relaxes, and cpu_relax() is the kernel's. */
#ifndef _ASM_TANE_OCI_VDSO_PROCESSOR_H
#define _ASM_TANE_OCI_VDSO_PROCESSOR_H

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* There is no vDSO, which would ask for the time here. */
#ifndef _ASM_TANE_OCI_VDSO_GETTIMEOFDAY_H
#define _ASM_TANE_OCI_VDSO_GETTIMEOFDAY_H

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* The vDSO's functions, of x86-64's names. */
#ifndef _TANE_VDSO_NAMES_H
#define _TANE_VDSO_NAMES_H

int __vdso_clock_gettime(clockid_t clock, struct __kernel_timespec *now);
int __vdso_clock_getres(clockid_t clock, struct __kernel_timespec *res);
int __vdso_gettimeofday(struct __kernel_old_timeval *tv, struct timezone *tz);
__kernel_old_time_t __vdso_time(__kernel_old_time_t *now);
long __vdso_getcpu(unsigned int *cpu, unsigned int *node, void *unused);

#endif

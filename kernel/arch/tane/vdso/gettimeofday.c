// SPDX-License-Identifier: GPL-2.0-only
/*
 * What programs find in their vDSO, of x86-64's names: code of theirs, which knows
 * nothing of the kernel but the page with the time. lib/vdso/gettimeofday.c is before
 * this.
 */
#include "names.h"

int __vdso_clock_gettime(clockid_t clock, struct __kernel_timespec *now)
{
	return __cvdso_clock_gettime(clock, now);
}

int clock_gettime(clockid_t clock, struct __kernel_timespec *now)
	__weak __alias(__vdso_clock_gettime);

int __vdso_clock_getres(clockid_t clock, struct __kernel_timespec *res)
{
	return __cvdso_clock_getres(clock, res);
}

int clock_getres(clockid_t clock, struct __kernel_timespec *res)
	__weak __alias(__vdso_clock_getres);

int __vdso_gettimeofday(struct __kernel_old_timeval *tv, struct timezone *tz)
{
	return __cvdso_gettimeofday(tv, tz);
}

int gettimeofday(struct __kernel_old_timeval *tv, struct timezone *tz)
	__weak __alias(__vdso_gettimeofday);

__kernel_old_time_t __vdso_time(__kernel_old_time_t *now)
{
	return __cvdso_time(now);
}

__kernel_old_time_t time(__kernel_old_time_t *now)
	__weak __alias(__vdso_time);

/* Which virtual CPU it is, nobody outside the kernel knows for sure. */
long __vdso_getcpu(unsigned int *cpu, unsigned int *node, void *unused)
{
	return tane_vdso_call(__NR_getcpu, (long)cpu, (long)node, 0);
}

long getcpu(unsigned int *cpu, unsigned int *node, void *unused)
	__weak __alias(__vdso_getcpu);

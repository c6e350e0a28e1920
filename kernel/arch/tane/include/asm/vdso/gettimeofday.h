/* SPDX-License-Identifier: GPL-2.0-only */
/* What lib/vdso/gettimeofday.c needs, as code of a program's. */
#ifndef _ASM_TANE_VDSO_GETTIMEOFDAY_H
#define _ASM_TANE_VDSO_GETTIMEOFDAY_H

#include <uapi/linux/time.h>
#include <asm/unistd.h>
#include <asm/vdso/clocksource.h>

#define VDSO_HAS_CLOCK_GETRES	1
#define VDSO_HAS_TIME		1

static __always_inline const struct vdso_data *__arch_get_vdso_data(void)
{
	return _vdso_data;
}

#ifdef CONFIG_TIME_NS
static __always_inline
const struct vdso_data *__arch_get_timens_vdso_data(const struct vdso_data *vd)
{
	return _timens_data;
}
#endif

/* The kernel's clock source, by the host's own vDSO: code that needs a stack only. */
static __always_inline u64 __arch_get_hw_counter(s32 clock_mode,
						 const struct vdso_data *vd)
{
	int (*clock_gettime)(int clock, struct __kernel_timespec *now) =
		(void *)vd->arch_data.clock_gettime;
	struct __kernel_timespec now;

	if (clock_gettime(CLOCK_MONOTONIC, &now))
		return U64_MAX;
	return now.tv_sec * NSEC_PER_SEC + now.tv_nsec;
}

/* Where the host had no time, the kernel is asked. */
static __always_inline bool tane_vdso_cycles_ok(u64 cycles)
{
	return cycles != U64_MAX;
}

#define vdso_cycles_ok tane_vdso_cycles_ok

/*
 * A call by the gate, as rewritten ones have it: rcx is where to go on, and two bytes
 * before r11 is what makes the call again. In a namespace of time the page with the
 * gate is not at hand.
 */
static __always_inline long tane_vdso_call(long nr, long a, long b, long c)
{
	u64 gate = __arch_get_vdso_data()->arch_data.gate;
	long ret;

	asm volatile("testq %[gate], %[gate]\n\t"
		     "jz 1f\n\t"
		     "leaq 2f(%%rip), %%r11\n\t"
		     "movq %%r11, %%rcx\n\t"
		     "jmp *%[gate]\n"
		     "1:\n\t"
		     "syscall\n"
		     "2:"
		     : "=a" (ret)
		     : "0" (nr), "D" (a), "S" (b), "d" (c), [gate] "r" (gate)
		     : "rcx", "r11", "cc", "memory");
	return ret;
}

static __always_inline
long clock_gettime_fallback(clockid_t clock, struct __kernel_timespec *now)
{
	return tane_vdso_call(__NR_clock_gettime, clock, (long)now, 0);
}

static __always_inline
long clock_getres_fallback(clockid_t clock, struct __kernel_timespec *res)
{
	return tane_vdso_call(__NR_clock_getres, clock, (long)res, 0);
}

static __always_inline
long gettimeofday_fallback(struct __kernel_old_timeval *tv, struct timezone *tz)
{
	return tane_vdso_call(__NR_gettimeofday, (long)tv, (long)tz, 0);
}

#endif

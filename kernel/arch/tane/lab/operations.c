// SPDX-License-Identifier: GPL-2.0-only
/*
 * The host's leaf operations run on the stack of their caller and expect it to be
 * aligned, as it is in code that the compiler has made. A probe in the middle of a
 * function is called with whatever the stack then is: so they are called through
 * functions that align it.
 */
#include <linux/bits.h>
#include <linux/cache.h>
#include <linux/init.h>
#include <asm/cpufeature.h>
#include <asm/machine.h>

#define ALIGNED __attribute__((force_align_arg_pointer))

static struct tane_ops tane_given __ro_after_init;
static struct tane_ops tane_aligned __ro_after_init;

static ALIGNED __u64 tane_aligned_monotonic(void *host)
{
	return tane_given.monotonic(host);
}

static ALIGNED __u64 tane_aligned_realtime(void *host)
{
	return tane_given.realtime(host);
}

static ALIGNED void tane_aligned_kick(void *host, __u32 cpu)
{
	tane_given.kick(host, cpu);
}

static ALIGNED void tane_aligned_yield(void *host)
{
	tane_given.yield(host);
}

static ALIGNED void tane_aligned_wake(void *host, struct tane_thread *thread)
{
	tane_given.wake(host, thread);
}

/* Before any code changes. */
static int __init tane_align_operations(void)
{
	tane_given = *tane_boot->ops;
	tane_aligned = tane_given;
	tane_aligned.monotonic = tane_aligned_monotonic;
	tane_aligned.realtime = tane_aligned_realtime;
	tane_aligned.kick = tane_aligned_kick;
	tane_aligned.yield = tane_aligned_yield;
	tane_aligned.wake = tane_aligned_wake;
	tane_boot->ops = &tane_aligned;
	return 0;
}
early_initcall(tane_align_operations);

/* What probes would write into their code for it is for kernels of their own machine. */
static int __init tane_forget_smap(void)
{
	tane_cpu_features[X86_FEATURE_SMAP / 32] &= ~BIT(X86_FEATURE_SMAP % 32);
	return 0;
}
early_initcall(tane_forget_smap);

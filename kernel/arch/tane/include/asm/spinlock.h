/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Test and set. With tickets or queues a lock passes to one certain CPU; if the
 * host has just taken that one's thread off its processor, all others wait for
 * it although the lock is free.
 */
#ifndef _ASM_TANE_SPINLOCK_H
#define _ASM_TANE_SPINLOCK_H

#include <linux/atomic.h>
#include <asm/processor.h>

static __always_inline bool arch_spin_trylock(arch_spinlock_t *lock)
{
	int unlocked = 0;

	return !atomic_read(lock) &&
	       atomic_try_cmpxchg_acquire(lock, &unlocked, 1);
}

static __always_inline void arch_spin_lock(arch_spinlock_t *lock)
{
	while (unlikely(!arch_spin_trylock(lock)))
		cpu_relax();
}

static __always_inline void arch_spin_unlock(arch_spinlock_t *lock)
{
	atomic_set_release(lock, 0);
}

static __always_inline int arch_spin_is_locked(arch_spinlock_t *lock)
{
	return atomic_read(lock);
}

/* Nobody queues, so a holder cannot tell, and keeps the lock. */
static __always_inline int arch_spin_is_contended(arch_spinlock_t *lock)
{
	return 0;
}

static __always_inline int arch_spin_value_unlocked(arch_spinlock_t lock)
{
	return !atomic_read(&lock);
}

#include <asm/qrwlock.h>

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _ASM_TANE_FUTEX_H
#define _ASM_TANE_FUTEX_H

#include <linux/futex.h>
#include <linux/uaccess.h>
#include <asm/asm.h>

/*
 * Always with the lock prefix, on one virtual CPU too: the word is the host
 * program's, and its other threads change it while we are in the kernel.
 */
static inline int futex_atomic_cmpxchg_inatomic(u32 *uval, u32 __user *uaddr,
						u32 oldval, u32 newval)
{
	int ret = -EFAULT;

	if (!access_ok(uaddr, sizeof(*uaddr)))
		return -EFAULT;
	asm volatile("1: lock cmpxchgl %3, %1\n"
		     "   xorl %0, %0\n"
		     "2:\n"
		     _ASM_EXTABLE_UA(1b, 2b)
		     : "+r" (ret), "+m" (*uaddr), "+a" (oldval)
		     : "r" (newval) : "memory");
	*uval = oldval;
	return ret;
}

static inline int arch_futex_atomic_op_inuser(int op, int oparg, int *oval,
					      u32 __user *uaddr)
{
	u32 old, seen, new;
	int ret;

	if (get_user(old, uaddr))
		return -EFAULT;
	for (;;) {
		switch (op) {
		case FUTEX_OP_SET:
			new = oparg;
			break;
		case FUTEX_OP_ADD:
			new = old + oparg;
			break;
		case FUTEX_OP_OR:
			new = old | oparg;
			break;
		case FUTEX_OP_ANDN:
			new = old & ~oparg;
			break;
		case FUTEX_OP_XOR:
			new = old ^ oparg;
			break;
		default:
			return -ENOSYS;
		}
		ret = futex_atomic_cmpxchg_inatomic(&seen, uaddr, old, new);
		if (ret)
			return ret;
		if (seen == old)
			break;
		old = seen;
	}
	*oval = old;
	return 0;
}

#endif

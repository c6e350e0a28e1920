/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls, and the work at their end, for requests as for the gate. */
#ifndef _TANE_CALLS_H
#define _TANE_CALLS_H

#include <linux/nospec.h>
#include <asm/machine.h>
#include <asm/program.h>
#include <asm/syscall.h>

static __always_inline long tane_do_call(long nr, const u64 *args)
{
	u64 a = args[0], b = args[1], c = args[2];
	u64 d = args[3], e = args[4], f = args[5];

	if (unlikely((unsigned long)nr >= NR_syscalls))
		return -ENOSYS;
	nr = array_index_nospec(nr, NR_syscalls);
	return sys_call_table[nr](a, b, c, d, e, f);
}

/* Whether signals are for the host thread, which runs a program, to come in for. */
static inline bool tane_calls_in(void)
{
	return IS_ENABLED(CONFIG_TANE_RUN) && tane_is_called_in();
}

/* calls.c, with interrupts off */
bool tane_exit_work(void);
long tane_finish_call(long nr, const u64 *args, long ret);

#endif

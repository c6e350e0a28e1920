/* SPDX-License-Identifier: GPL-2.0-only */
/* One thread is in a window: what it keeps is in one place. */
extern char __tane_thread[] __attribute__((__visibility__("hidden")));

static inline uintptr_t __get_tp(void)
{
	return (uintptr_t)__tane_thread;
}

#define MC_PC gregs[REG_RIP]

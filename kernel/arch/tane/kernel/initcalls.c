// SPDX-License-Identifier: GPL-2.0-only
/*
 * What Linux would do at boot for nobody. /sys/kernel/slab has two dozen files for
 * each cache of objects, which take a fifteenth of a start, and memory of their own.
 * They are for whoever debugs caches.
 */
#include <linux/init.h>
#include <linux/kallsyms.h>
#include <asm/setup.h>

static int __init tane_nothing(void)
{
	return 0;
}

void __init tane_skip_initcalls(void)
{
	unsigned long skipped = kallsyms_lookup_name("slab_late_init");
	initcall_entry_t *entry;

	if (IS_ENABLED(CONFIG_SLUB_DEBUG) || !skipped)
		return;
	for (entry = __initcall7_start; entry < __initcall_end; entry++)
		if ((unsigned long)initcall_from_entry(entry) == skipped)
			*entry = (long)tane_nothing - (long)entry;
}

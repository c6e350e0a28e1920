// SPDX-License-Identifier: GPL-2.0-only
/*
 * The recovery of lost disks of a RAID 6 by vector code, which lib/raid6/algos.c
 * knows of for CONFIG_X86 only.
 */
#include <linux/init.h>
#include <linux/printk.h>
#include <linux/raid/pq.h>

static const struct raid6_recov_calls *const algorithms[] __initconst = {
#ifdef CONFIG_AS_AVX512
	&raid6_recov_avx512,
#endif
	&raid6_recov_avx2,
	&raid6_recov_ssse3,
};

static int __init choose_recovery(void)
{
	for (int i = 0; i < ARRAY_SIZE(algorithms); i++) {
		if (!algorithms[i]->valid())
			continue;
		raid6_2data_recov = algorithms[i]->data2;
		raid6_datap_recov = algorithms[i]->datap;
		pr_info("raid6: using %s recovery algorithm instead\n",
			algorithms[i]->name);
		break;
	}
	return 0;
}

/* After raid6_select_algo(). */
subsys_initcall_sync(choose_recovery);

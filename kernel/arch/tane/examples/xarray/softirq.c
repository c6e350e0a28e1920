// SPDX-License-Identifier: GPL-2.0-only
/*
 * An array that softirqs change too: XA_FLAGS_LOCK_BH, so that a store which
 * lets go of the lock to have memory takes it again in the right way, and
 * the functions that end in _bh in processes.
 */
#include <kunit/test.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

struct packets {
	struct xarray waiting;
	struct work_struct arrival;
	unsigned long arrived;
};

/* In a softirq: the lock as it is, since no other softirq runs here now. */
static void arrive(struct work_struct *work)
{
	struct packets *p = container_of(work, struct packets, arrival);
	unsigned long index;

	for (index = 0; index < 100; index += 2) {
		xa_lock(&p->waiting);
		if (__xa_erase(&p->waiting, index))
			p->arrived++;
		xa_unlock(&p->waiting);
	}
}

static void a_process_stores_and_a_softirq_erases(struct kunit *test)
{
	static struct packets p;
	unsigned long index;

	p.arrived = 0;
	xa_init_flags(&p.waiting, XA_FLAGS_LOCK_BH);
	INIT_WORK(&p.arrival, arrive);
	for (index = 0; index < 100; index++)
		KUNIT_ASSERT_EQ(test, xa_err(xa_store_bh(&p.waiting, index,
							 xa_mk_value(index),
							 GFP_KERNEL)), 0);
	queue_work(system_bh_wq, &p.arrival);
	flush_work(&p.arrival);

	/* Reading needs no more than elsewhere. */
	KUNIT_EXPECT_NULL(test, xa_load(&p.waiting, 98));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&p.waiting, 99), xa_mk_value(99));
	xa_lock_bh(&p.waiting);
	KUNIT_EXPECT_EQ(test, p.arrived, 50UL);
	xa_unlock_bh(&p.waiting);
	xa_destroy(&p.waiting);
}

static void each_function_for_processes(struct kunit *test)
{
	static struct xarray a;
	u32 id, next = 5;

	xa_init_flags(&a, XA_FLAGS_LOCK_BH | XA_FLAGS_ALLOC);
	KUNIT_EXPECT_EQ(test, xa_alloc_bh(&a, &id, xa_mk_value(1), xa_limit_31b,
					  GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, xa_alloc_cyclic_bh(&a, &id, xa_mk_value(2),
						 xa_limit_31b, &next,
						 GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, id, 5U);
	KUNIT_EXPECT_EQ(test, xa_insert_bh(&a, 0, xa_mk_value(3), GFP_KERNEL),
			-EBUSY);
	KUNIT_EXPECT_EQ(test, xa_reserve_bh(&a, 9, GFP_KERNEL), 0);
	KUNIT_EXPECT_PTR_EQ(test, xa_cmpxchg_bh(&a, 0, xa_mk_value(1),
						xa_mk_value(4), GFP_KERNEL),
			    xa_mk_value(1));
	KUNIT_EXPECT_PTR_EQ(test, xa_erase_bh(&a, 0), xa_mk_value(4));
	xa_erase_bh(&a, 5);
	xa_erase_bh(&a, 9);
	KUNIT_EXPECT_TRUE(test, xa_empty(&a));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_process_stores_and_a_softirq_erases),
	KUNIT_CASE(each_function_for_processes),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_softirq",
	.test_cases = cases,
};

kunit_test_suite(suite);

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reserved entries: memory for an index is had now, where one may wait for
 * it, so that a store later, where one may not, cannot fail.
 */
#include <kunit/test.h>
#include <linux/spinlock.h>
#include <linux/xarray.h>

static void a_reserved_index_looks_empty(struct kunit *test)
{
	static DEFINE_XARRAY(slots);

	KUNIT_EXPECT_EQ(test, xa_reserve(&slots, 12345, GFP_KERNEL), 0);
	KUNIT_EXPECT_NULL(test, xa_load(&slots, 12345));
	/* But the array is not: its nodes are there. */
	KUNIT_EXPECT_FALSE(test, xa_empty(&slots));
	/* And nobody else inserts there. */
	KUNIT_EXPECT_EQ(test, xa_insert(&slots, 12345, xa_mk_value(1),
					GFP_KERNEL), -EBUSY);

	xa_release(&slots, 12345);
	KUNIT_EXPECT_TRUE(test, xa_empty(&slots));
}

static void storing_into_it_needs_no_memory(struct kunit *test)
{
	static DEFINE_XARRAY(slots);
	static DEFINE_SPINLOCK(lock);
	void *old;

	KUNIT_ASSERT_EQ(test, xa_reserve(&slots, 1UL << 50, GFP_KERNEL), 0);
	/* Nine nodes, which nobody could be asked for here: flags 0. */
	spin_lock(&lock);
	old = xa_store(&slots, 1UL << 50, xa_mk_value(7), 0);
	spin_unlock(&lock);
	KUNIT_EXPECT_EQ(test, xa_err(old), 0);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&slots, 1UL << 50), xa_mk_value(7));

	/* What was stored meanwhile stays: xa_release() is for all ends. */
	xa_release(&slots, 1UL << 50);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&slots, 1UL << 50), xa_mk_value(7));
	xa_destroy(&slots);
}

static void the_advanced_interface_sees_zero_entries(struct kunit *test)
{
	static DEFINE_XARRAY(slots);
	XA_STATE(xas, &slots, 40);
	unsigned long index, seen = 0;
	void *entry;

	KUNIT_ASSERT_EQ(test, xa_reserve(&slots, 40, GFP_KERNEL), 0);
	xa_for_each(&slots, index, entry)
		seen++;
	KUNIT_EXPECT_EQ(test, seen, 0UL);

	rcu_read_lock();
	KUNIT_EXPECT_TRUE(test, xa_is_zero(xas_load(&xas)));
	rcu_read_unlock();
	xa_destroy(&slots);
}

static void reserving_for_interrupts(struct kunit *test)
{
	static DEFINE_XARRAY(slots);

	/* The lock is taken as those need it who store; see irq.c. */
	xa_init_flags(&slots, XA_FLAGS_LOCK_BH);
	KUNIT_EXPECT_EQ(test, xa_reserve_bh(&slots, 1, GFP_KERNEL), 0);
	xa_lock_bh(&slots);
	__xa_cmpxchg(&slots, 1, XA_ZERO_ENTRY, NULL, 0);
	xa_unlock_bh(&slots);
	KUNIT_EXPECT_TRUE(test, xa_empty(&slots));

	xa_init_flags(&slots, XA_FLAGS_LOCK_IRQ);
	KUNIT_EXPECT_EQ(test, xa_reserve_irq(&slots, 2, GFP_KERNEL), 0);
	xa_erase_irq(&slots, 2);
	KUNIT_EXPECT_TRUE(test, xa_empty(&slots));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_reserved_index_looks_empty),
	KUNIT_CASE(storing_into_it_needs_no_memory),
	KUNIT_CASE(the_advanced_interface_sees_zero_entries),
	KUNIT_CASE(reserving_for_interrupts),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_reserved",
	.test_cases = cases,
};

kunit_test_suite(suite);

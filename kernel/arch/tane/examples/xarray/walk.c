// SPDX-License-Identifier: GPL-2.0-only
/*
 * Walking with a cursor: it knows where it is, so that the next entry costs
 * no walk from the top. Who lets go of the lock or of RCU in between says so.
 */
#include <kunit/test.h>
#include <linux/xarray.h>

#define MANY	(3 * XA_CHECK_SCHED)

static void fill(struct xarray *xa, unsigned long step)
{
	unsigned long index;

	for (index = 0; index < MANY; index += step)
		xa_store(xa, index, xa_mk_value(index), GFP_KERNEL);
}

static void a_long_walk_makes_pauses(struct kunit *test)
{
	static DEFINE_XARRAY(a);
	XA_STATE(xas, &a, 0);
	unsigned long seen = 0, pauses = 0;
	void *entry;

	fill(&a, 1);
	rcu_read_lock();
	xas_for_each(&xas, entry, ULONG_MAX) {
		if (xas_retry(&xas, entry))
			continue;
		KUNIT_EXPECT_EQ(test, xa_to_value(entry), xas.xa_index);
		if (++seen % XA_CHECK_SCHED)
			continue;
		/* The node it is in may be gone after this. */
		xas_pause(&xas);
		rcu_read_unlock();
		pauses++;
		cond_resched();
		rcu_read_lock();
	}
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, seen, (unsigned long)MANY);
	KUNIT_EXPECT_EQ(test, pauses, 3UL);
	xa_destroy(&a);
}

static void a_walk_that_changes_what_it_sees(struct kunit *test)
{
	static DEFINE_XARRAY(a);
	XA_STATE(xas, &a, 0);
	unsigned long left = 0, index, seen = 0;
	void *entry;

	fill(&a, 1);
	/* With interrupts off one lets them in every so often. */
	xas_lock_irq(&xas);
	xas_for_each(&xas, entry, ULONG_MAX) {
		if (xas.xa_index % 3)
			xas_store(&xas, NULL);
		else
			xas_set_mark(&xas, XA_MARK_2);
		if (++seen % XA_CHECK_SCHED)
			continue;
		xas_pause(&xas);
		xas_unlock_irq(&xas);
		cond_resched();
		xas_lock_irq(&xas);
	}
	xas_unlock_irq(&xas);

	xa_for_each_marked(&a, index, entry, XA_MARK_2)
		left++;
	KUNIT_EXPECT_EQ(test, seen, (unsigned long)MANY);
	KUNIT_EXPECT_EQ(test, left, DIV_ROUND_UP(MANY, 3UL));
	xa_destroy(&a);
}

static void marked_entries_by_cursor(struct kunit *test)
{
	static DEFINE_XARRAY(a);
	XA_STATE(xas, &a, 0);
	unsigned long seen = 0;
	void *entry;

	fill(&a, 2);
	xa_set_mark(&a, 10, XA_MARK_0);
	xa_set_mark(&a, 4000, XA_MARK_0);
	rcu_read_lock();
	xas_for_each_marked(&xas, entry, ULONG_MAX, XA_MARK_0)
		seen += xas.xa_index;
	xas_set(&xas, 11);
	entry = xas_find_marked(&xas, ULONG_MAX, XA_MARK_0);
	rcu_read_unlock();
	KUNIT_EXPECT_EQ(test, seen, 4010UL);
	KUNIT_EXPECT_PTR_EQ(test, entry, xa_mk_value(4000));
	xa_destroy(&a);
}

static void step_by_step_there_and_back(struct kunit *test)
{
	static DEFINE_XARRAY(a);
	XA_STATE(xas, &a, 62);

	fill(&a, 2);
	rcu_read_lock();
	/* Each index, empty ones too, over the border of a node. */
	KUNIT_EXPECT_PTR_EQ(test, xas_load(&xas), xa_mk_value(62));
	KUNIT_EXPECT_NULL(test, xas_next(&xas));
	KUNIT_EXPECT_PTR_EQ(test, xas_next(&xas), xa_mk_value(64));
	KUNIT_EXPECT_EQ(test, xas.xa_index, 64UL);
	KUNIT_EXPECT_NULL(test, xas_prev(&xas));
	KUNIT_EXPECT_PTR_EQ(test, xas_prev(&xas), xa_mk_value(62));
	/* Or from entry to entry. */
	KUNIT_EXPECT_PTR_EQ(test, xas_find(&xas, ULONG_MAX), xa_mk_value(64));
	KUNIT_EXPECT_PTR_EQ(test, xas_next_entry(&xas, ULONG_MAX),
			    xa_mk_value(66));
	rcu_read_unlock();
	xa_destroy(&a);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_long_walk_makes_pauses),
	KUNIT_CASE(a_walk_that_changes_what_it_sees),
	KUNIT_CASE(marked_entries_by_cursor),
	KUNIT_CASE(step_by_step_there_and_back),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_walk",
	.test_cases = cases,
};

kunit_test_suite(suite);

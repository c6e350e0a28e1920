// SPDX-License-Identifier: GPL-2.0-only
/*
 * Multi-index entries: one entry for an aligned power of two of indices. The
 * page cache has its large folios so.
 */
#include <kunit/test.h>
#include <linux/xarray.h>

static int store_order(struct xarray *xa, unsigned long index,
		       unsigned int order, void *entry)
{
	XA_STATE_ORDER(xas, xa, index, order);

	do {
		xas_lock(&xas);
		xas_store(&xas, entry);
		xas_unlock(&xas);
	} while (xas_nomem(&xas, GFP_KERNEL));
	return xas_error(&xas);
}

static unsigned long count(struct xarray *xa)
{
	unsigned long index, n = 0;
	void *entry;

	xa_for_each(xa, index, entry)
		n++;
	return n;
}

static void one_entry_at_many_indices(struct kunit *test)
{
	static DEFINE_XARRAY(folios);

	KUNIT_ASSERT_EQ(test, store_order(&folios, 512, 9, xa_mk_value(1)), 0);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&folios, 512), xa_mk_value(1));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&folios, 1023), xa_mk_value(1));
	KUNIT_EXPECT_NULL(test, xa_load(&folios, 511));
	KUNIT_EXPECT_NULL(test, xa_load(&folios, 1024));
	KUNIT_EXPECT_EQ(test, xa_get_order(&folios, 700), 9);
	KUNIT_EXPECT_EQ(test, count(&folios), 1UL);

	/* A mark on one of them is on all. */
	xa_set_mark(&folios, 600, XA_MARK_0);
	KUNIT_EXPECT_TRUE(test, xa_get_mark(&folios, 1000, XA_MARK_0));

	/* So is another entry, and NULL ends it. */
	xa_store(&folios, 513, xa_mk_value(2), GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&folios, 1023), xa_mk_value(2));
	xa_erase(&folios, 900);
	KUNIT_EXPECT_TRUE(test, xa_empty(&folios));
}

static void what_is_in_the_way(struct kunit *test)
{
	static DEFINE_XARRAY(folios);
	XA_STATE_ORDER(xas, &folios, 64, 6);
	unsigned long found = 0;
	void *entry;

	xa_store(&folios, 70, xa_mk_value(70), GFP_KERNEL);
	xa_store(&folios, 90, xa_mk_value(90), GFP_KERNEL);
	xa_store(&folios, 128, xa_mk_value(128), GFP_KERNEL);

	/* Before a large one is stored: who would be lost? */
	xas_lock(&xas);
	KUNIT_EXPECT_PTR_EQ(test, xas_find_conflict(&xas), xa_mk_value(70));
	xas_set_order(&xas, 64, 6);
	xas_for_each_conflict(&xas, entry)
		found++;
	xas_unlock(&xas);
	KUNIT_EXPECT_EQ(test, found, 2UL);

	KUNIT_EXPECT_EQ(test, store_order(&folios, 64, 6, xa_mk_value(1)), 0);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&folios, 70), xa_mk_value(1));
	KUNIT_EXPECT_EQ(test, count(&folios), 2UL);
	xa_destroy(&folios);
}

static void a_large_entry_is_split(struct kunit *test)
{
	static DEFINE_XARRAY(folios);
	XA_STATE_ORDER(xas, &folios, 64, 2);

	KUNIT_ASSERT_EQ(test, store_order(&folios, 64, 6, xa_mk_value(1)), 0);

	/* Memory before the lock, then 16 entries of four indices each. */
	xas_split_alloc(&xas, xa_mk_value(1), 6, GFP_KERNEL);
	KUNIT_ASSERT_EQ(test, xas_error(&xas), 0);
	xas_lock(&xas);
	xas_split(&xas, xa_mk_value(1), 6);
	xas_unlock(&xas);
	KUNIT_EXPECT_EQ(test, count(&folios), 16UL);
	KUNIT_EXPECT_EQ(test, xa_get_order(&folios, 65), 2);

	xa_store(&folios, 65, xa_mk_value(2), GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&folios, 67), xa_mk_value(2));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&folios, 68), xa_mk_value(1));
	xa_destroy(&folios);
}

static void a_cursor_sees_what_is_beside_the_entry(struct kunit *test)
{
	static DEFINE_XARRAY(folios);
	XA_STATE(xas, &folios, 9);
	void *entry;

	KUNIT_ASSERT_EQ(test, store_order(&folios, 8, 2, xa_mk_value(1)), 0);
	rcu_read_lock();
	entry = xas_load(&xas);
	KUNIT_EXPECT_PTR_EQ(test, entry, xa_mk_value(1));
	/* It stands at the index that was asked for, within the entry. */
	KUNIT_EXPECT_EQ(test, xas.xa_index, 9UL);
	KUNIT_EXPECT_EQ(test, xas_get_order(&xas), 2);
	/* Whoever goes on comes to what is after the whole of it. */
	KUNIT_EXPECT_NULL(test, xas_find(&xas, ULONG_MAX));
	rcu_read_unlock();
	xa_destroy(&folios);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(one_entry_at_many_indices),
	KUNIT_CASE(what_is_in_the_way),
	KUNIT_CASE(a_large_entry_is_split),
	KUNIT_CASE(a_cursor_sees_what_is_beside_the_entry),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_multi",
	.test_cases = cases,
};

kunit_test_suite(suite);

// SPDX-License-Identifier: GPL-2.0-only
/*
 * One entry for a range of indices. xa_store_range() takes any range, and
 * makes of it multi-index entries that lie within a node each, which need not
 * be powers of two: what is done to one of them does not reach the others.
 */
#include <kunit/test.h>
#include <linux/xarray.h>

static void a_range_has_one_entry_everywhere(struct kunit *test)
{
	static DEFINE_XARRAY(owners);
	void *old;

	old = xa_store_range(&owners, 100, 299, xa_mk_value(1), GFP_KERNEL);
	KUNIT_EXPECT_EQ(test, xa_err(old), 0);
	KUNIT_EXPECT_NULL(test, xa_load(&owners, 99));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&owners, 100), xa_mk_value(1));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&owners, 200), xa_mk_value(1));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&owners, 299), xa_mk_value(1));
	KUNIT_EXPECT_NULL(test, xa_load(&owners, 300));

	/* A part of it, for somebody else. */
	xa_store_range(&owners, 150, 159, xa_mk_value(2), GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&owners, 155), xa_mk_value(2));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&owners, 100), xa_mk_value(1));
	xa_destroy(&owners);
}

static void a_range_is_one_piece_in_each_node(struct kunit *test)
{
	unsigned long index, pieces = 0;
	static DEFINE_XARRAY(owners);
	void *entry;

	/* 64 to 127 are a node's: one piece, whatever is erased there. */
	xa_store_range(&owners, 64, 127, xa_mk_value(1), GFP_KERNEL);
	KUNIT_EXPECT_EQ(test, xa_get_order(&owners, 80), 6);
	xa_for_each(&owners, index, entry)
		pieces++;
	KUNIT_EXPECT_EQ(test, pieces, 1UL);
	xa_erase(&owners, 80);
	KUNIT_EXPECT_TRUE(test, xa_empty(&owners));

	/* 60 to 70 are 60 to 63, and 64 to 70. */
	xa_store_range(&owners, 60, 70, xa_mk_value(1), GFP_KERNEL);
	xa_erase(&owners, 61);
	KUNIT_EXPECT_NULL(test, xa_load(&owners, 60));
	KUNIT_EXPECT_NULL(test, xa_load(&owners, 63));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&owners, 64), xa_mk_value(1));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&owners, 70), xa_mk_value(1));
	xa_destroy(&owners);
}

static void a_range_that_is_none_is_refused(struct kunit *test)
{
	static DEFINE_XARRAY(owners);
	void *old = xa_store_range(&owners, 2, 1, xa_mk_value(1), GFP_KERNEL);

	KUNIT_EXPECT_EQ(test, xa_err(old), -EINVAL);
	KUNIT_EXPECT_TRUE(test, xa_empty(&owners));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_range_has_one_entry_everywhere),
	KUNIT_CASE(a_range_is_one_piece_in_each_node),
	KUNIT_CASE(a_range_that_is_none_is_refused),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_ranges",
	.test_cases = cases,
};

kunit_test_suite(suite);

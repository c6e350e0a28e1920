// SPDX-License-Identifier: GPL-2.0-only
/*
 * An XArray that gives out indices: XA_FLAGS_ALLOC. It needs XA_MARK_0 for
 * itself, to know what is free.
 */
#include <kunit/test.h>
#include <linux/xarray.h>

static void the_lowest_free_index_is_given_out(struct kunit *test)
{
	static DEFINE_XARRAY_ALLOC(sessions);
	u32 id;

	KUNIT_EXPECT_EQ(test, xa_alloc(&sessions, &id, xa_mk_value(1),
				       xa_limit_32b, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, id, 0U);
	KUNIT_EXPECT_EQ(test, xa_alloc(&sessions, &id, xa_mk_value(2),
				       xa_limit_32b, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, id, 1U);

	/* NULL takes an index without showing anything there yet. */
	KUNIT_EXPECT_EQ(test, xa_alloc(&sessions, &id, NULL,
				       xa_limit_32b, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, id, 2U);
	KUNIT_EXPECT_NULL(test, xa_load(&sessions, 2));
	xa_store(&sessions, 2, xa_mk_value(3), GFP_KERNEL);

	/* Storing NULL keeps the index taken, erasing frees it. */
	xa_store(&sessions, 0, NULL, GFP_KERNEL);
	xa_erase(&sessions, 1);
	KUNIT_EXPECT_EQ(test, xa_alloc(&sessions, &id, xa_mk_value(4),
				       xa_limit_32b, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, id, 1U);
	xa_destroy(&sessions);
}

static void within_limits_and_from_one(struct kunit *test)
{
	static DEFINE_XARRAY_ALLOC1(minors);
	struct xa_limit few = XA_LIMIT(10, 12);
	int i;
	u32 id;

	/* 0 is never given out: an id of 0 can mean none. */
	KUNIT_EXPECT_EQ(test, xa_alloc(&minors, &id, xa_mk_value(1),
				       xa_limit_31b, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, id, 1U);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_EQ(test, xa_alloc(&minors, &id, xa_mk_value(i),
					       few, GFP_KERNEL), 0);
		KUNIT_EXPECT_EQ(test, id, 10U + i);
	}
	KUNIT_EXPECT_EQ(test, xa_alloc(&minors, &id, xa_mk_value(3), few,
				       GFP_KERNEL), -EBUSY);
	xa_destroy(&minors);
}

static void in_turn_so_that_none_comes_back_soon(struct kunit *test)
{
	static DEFINE_XARRAY_ALLOC(pids);
	struct xa_limit few = XA_LIMIT(0, 3);
	u32 id, next = 0;
	int i;

	for (i = 0; i < 4; i++) {
		KUNIT_EXPECT_EQ(test, xa_alloc_cyclic(&pids, &id, xa_mk_value(i),
						      few, &next, GFP_KERNEL), 0);
		KUNIT_EXPECT_EQ(test, id, (u32)i);
	}
	xa_erase(&pids, 1);
	xa_erase(&pids, 3);
	/* 1: it went round, and began again at the lowest. */
	KUNIT_EXPECT_EQ(test, xa_alloc_cyclic(&pids, &id, xa_mk_value(9), few,
					      &next, GFP_KERNEL), 1);
	KUNIT_EXPECT_EQ(test, id, 1U);
	KUNIT_EXPECT_EQ(test, xa_alloc_cyclic(&pids, &id, xa_mk_value(9), few,
					      &next, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, id, 3U);
	KUNIT_EXPECT_EQ(test, xa_alloc_cyclic(&pids, &id, xa_mk_value(9), few,
					      &next, GFP_KERNEL), -EBUSY);
	xa_destroy(&pids);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(the_lowest_free_index_is_given_out),
	KUNIT_CASE(within_limits_and_from_one),
	KUNIT_CASE(in_turn_so_that_none_comes_back_soon),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_alloc",
	.test_cases = cases,
};

kunit_test_suite(suite);

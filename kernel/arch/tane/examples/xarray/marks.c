// SPDX-License-Identifier: GPL-2.0-only
/*
 * Marks: three bits of each entry, by which entries are found without a look
 * at the others. The page cache knows by them what is dirty and what is being
 * written.
 */
#include <kunit/test.h>
#include <linux/xarray.h>

#define DIRTY	XA_MARK_0
#define WRITING	XA_MARK_1

static void marks_are_of_entries(struct kunit *test)
{
	static DEFINE_XARRAY(pages);

	/* What is not there cannot be marked. */
	xa_set_mark(&pages, 5, DIRTY);
	KUNIT_EXPECT_FALSE(test, xa_get_mark(&pages, 5, DIRTY));
	KUNIT_EXPECT_FALSE(test, xa_marked(&pages, DIRTY));

	xa_store(&pages, 5, xa_mk_value(1), GFP_KERNEL);
	xa_set_mark(&pages, 5, DIRTY);
	KUNIT_EXPECT_TRUE(test, xa_get_mark(&pages, 5, DIRTY));
	KUNIT_EXPECT_FALSE(test, xa_get_mark(&pages, 5, WRITING));
	KUNIT_EXPECT_TRUE(test, xa_marked(&pages, DIRTY));

	/* Another entry at the same index keeps them, erasing does not. */
	xa_store(&pages, 5, xa_mk_value(2), GFP_KERNEL);
	KUNIT_EXPECT_TRUE(test, xa_get_mark(&pages, 5, DIRTY));
	xa_erase(&pages, 5);
	xa_store(&pages, 5, xa_mk_value(3), GFP_KERNEL);
	KUNIT_EXPECT_FALSE(test, xa_get_mark(&pages, 5, DIRTY));
	xa_destroy(&pages);
}

static void marked_entries_are_found_among_many(struct kunit *test)
{
	unsigned long index, last = 0, found = 0;
	static DEFINE_XARRAY(pages);
	void *some[8];
	void *entry;

	for (index = 0; index < 5000; index++)
		xa_store(&pages, index, xa_mk_value(index), GFP_KERNEL);
	for (index = 0; index < 5000; index += 1000)
		xa_set_mark(&pages, index, DIRTY);

	xa_for_each_marked(&pages, index, entry, DIRTY) {
		KUNIT_EXPECT_EQ(test, index % 1000, 0UL);
		last = index;
		found++;
		/* From dirty to being written, as write-back does it. */
		xa_set_mark(&pages, index, WRITING);
		xa_clear_mark(&pages, index, DIRTY);
	}
	KUNIT_EXPECT_EQ(test, found, 5UL);
	KUNIT_EXPECT_EQ(test, last, 4000UL);
	KUNIT_EXPECT_FALSE(test, xa_marked(&pages, DIRTY));

	index = 1;
	entry = xa_find(&pages, &index, ULONG_MAX, WRITING);
	KUNIT_EXPECT_EQ(test, xa_to_value(entry), 1000UL);
	KUNIT_EXPECT_EQ(test, xa_extract(&pages, some, 0, ULONG_MAX,
					 ARRAY_SIZE(some), WRITING), 5U);
	xa_destroy(&pages);
}

static void look_and_mark_in_one_piece(struct kunit *test)
{
	static DEFINE_XARRAY(pages);

	xa_store(&pages, 9, xa_mk_value(9), GFP_KERNEL);
	/* Nobody takes the entry away between the two. */
	xa_lock(&pages);
	if (xa_load(&pages, 9) == xa_mk_value(9))
		__xa_set_mark(&pages, 9, DIRTY);
	xa_unlock(&pages);
	KUNIT_EXPECT_TRUE(test, xa_get_mark(&pages, 9, DIRTY));

	xa_lock(&pages);
	__xa_clear_mark(&pages, 9, DIRTY);
	xa_unlock(&pages);
	KUNIT_EXPECT_FALSE(test, xa_get_mark(&pages, 9, DIRTY));
	xa_destroy(&pages);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(marks_are_of_entries),
	KUNIT_CASE(marked_entries_are_found_among_many),
	KUNIT_CASE(look_and_mark_in_one_piece),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_marks",
	.test_cases = cases,
};

kunit_test_suite(suite);

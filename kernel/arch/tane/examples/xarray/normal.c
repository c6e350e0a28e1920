// SPDX-License-Identifier: GPL-2.0-only
/*
 * The XArray's normal interface: an array of pointers, as long as indices are,
 * that is NULL wherever nothing was stored. It takes its own locks.
 */
#include <kunit/test.h>
#include <linux/slab.h>
#include <linux/xarray.h>

struct guest {
	unsigned int room;
};

static void store_load_and_erase(struct kunit *test)
{
	static DEFINE_XARRAY(hotel);
	struct guest ann = { 7 }, ben = { 7 };

	KUNIT_EXPECT_TRUE(test, xa_empty(&hotel));
	KUNIT_EXPECT_NULL(test, xa_load(&hotel, 7));

	/* What was there before is the answer, or an error to be asked for. */
	KUNIT_EXPECT_NULL(test, xa_store(&hotel, 7, &ann, GFP_KERNEL));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&hotel, 7), (void *)&ann);
	KUNIT_EXPECT_PTR_EQ(test, xa_store(&hotel, 7, &ben, GFP_KERNEL),
			    (void *)&ann);

	/* Storing NULL is erasing. */
	KUNIT_EXPECT_PTR_EQ(test, xa_erase(&hotel, 7), (void *)&ben);
	KUNIT_EXPECT_NULL(test, xa_erase(&hotel, 7));
	KUNIT_EXPECT_TRUE(test, xa_empty(&hotel));

	/* Any index will do; few and near to each other take least memory. */
	xa_store(&hotel, ULONG_MAX, &ann, GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&hotel, ULONG_MAX), (void *)&ann);
	xa_destroy(&hotel);
	KUNIT_EXPECT_TRUE(test, xa_empty(&hotel));
}

static void an_error_is_an_entry_that_xa_err_reads(struct kunit *test)
{
	static DEFINE_XARRAY(hotel);
	struct guest ann = { 1 };

	KUNIT_EXPECT_EQ(test, xa_err(NULL), 0);
	KUNIT_EXPECT_EQ(test, xa_err(&ann), 0);
	KUNIT_EXPECT_EQ(test, xa_err(XA_ERROR(-ENOMEM)), -ENOMEM);
	/* Index 0 alone is in the head itself: that takes no memory. */
	KUNIT_EXPECT_NULL(test, xa_store(&hotel, 0, &ann, 0));
	xa_destroy(&hotel);
}

static void numbers_and_tags_instead_of_pointers(struct kunit *test)
{
	static DEFINE_XARRAY(numbers);
	struct guest ann = { 3 };
	void *entry;

	/* From 0 to LONG_MAX. */
	xa_store(&numbers, 1, xa_mk_value(0), GFP_KERNEL);
	xa_store(&numbers, 2, xa_mk_value(LONG_MAX), GFP_KERNEL);
	entry = xa_load(&numbers, 1);
	KUNIT_EXPECT_TRUE(test, entry && xa_is_value(entry));
	KUNIT_EXPECT_EQ(test, xa_to_value(entry), 0UL);
	KUNIT_EXPECT_EQ(test, xa_to_value(xa_load(&numbers, 2)),
			(unsigned long)LONG_MAX);

	/* Or a pointer with 1 or 3, which a value cannot be told from. */
	xa_store(&numbers, 3, xa_tag_pointer(&ann, 3), GFP_KERNEL);
	entry = xa_load(&numbers, 3);
	KUNIT_EXPECT_EQ(test, xa_pointer_tag(entry), 3U);
	KUNIT_EXPECT_PTR_EQ(test, xa_untag_pointer(entry), (void *)&ann);
	xa_destroy(&numbers);
}

static void store_only_if_it_is_as_it_was(struct kunit *test)
{
	static DEFINE_XARRAY(hotel);
	struct guest ann = { 2 }, ben = { 2 };

	/* Only into an empty place. */
	KUNIT_EXPECT_EQ(test, xa_insert(&hotel, 2, &ann, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, xa_insert(&hotel, 2, &ben, GFP_KERNEL), -EBUSY);

	/* Only for whom one saw there; the answer is who was there. */
	KUNIT_EXPECT_PTR_EQ(test, xa_cmpxchg(&hotel, 2, &ben, NULL, GFP_KERNEL),
			    (void *)&ann);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&hotel, 2), (void *)&ann);
	KUNIT_EXPECT_PTR_EQ(test, xa_cmpxchg(&hotel, 2, &ann, &ben, GFP_KERNEL),
			    (void *)&ann);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&hotel, 2), (void *)&ben);
	xa_destroy(&hotel);
}

static void look_through_what_is_there(struct kunit *test)
{
	static const unsigned long rooms[] = { 3, 64, 65, 4096, 1UL << 40 };
	struct guest guests[ARRAY_SIZE(rooms)];
	unsigned long index, seen = 0;
	static DEFINE_XARRAY(hotel);
	void *found[3];
	struct guest *g;
	int i;

	for (i = 0; i < ARRAY_SIZE(rooms); i++)
		xa_store(&hotel, rooms[i], &guests[i], GFP_KERNEL);

	/* In the order of indices; what is empty is jumped over. */
	xa_for_each(&hotel, index, g) {
		KUNIT_EXPECT_EQ(test, index, rooms[seen]);
		KUNIT_EXPECT_PTR_EQ(test, g, &guests[seen]);
		seen++;
	}
	KUNIT_EXPECT_EQ(test, seen, ARRAY_SIZE(rooms));

	seen = 0;
	xa_for_each_start(&hotel, index, g, 65)
		seen++;
	KUNIT_EXPECT_EQ(test, seen, 3UL);
	seen = 0;
	xa_for_each_range(&hotel, index, g, 64, 4095)
		seen++;
	KUNIT_EXPECT_EQ(test, seen, 2UL);

	/* The same in single steps. */
	index = 4;
	g = xa_find(&hotel, &index, ULONG_MAX, XA_PRESENT);
	KUNIT_EXPECT_PTR_EQ(test, g, &guests[1]);
	g = xa_find_after(&hotel, &index, ULONG_MAX, XA_PRESENT);
	KUNIT_EXPECT_PTR_EQ(test, g, &guests[2]);
	KUNIT_EXPECT_EQ(test, index, 65UL);

	/* And many at once, into an array. */
	KUNIT_EXPECT_EQ(test, xa_extract(&hotel, found, 64, ULONG_MAX,
					 ARRAY_SIZE(found), XA_PRESENT), 3U);
	KUNIT_EXPECT_PTR_EQ(test, found[2], (void *)&guests[3]);
	xa_destroy(&hotel);
}

static void free_what_is_in_it_before_it(struct kunit *test)
{
	static DEFINE_XARRAY(hotel);
	unsigned long index;
	struct guest *g;
	int room;

	for (room = 0; room < 100; room++) {
		g = kmalloc(sizeof(*g), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, g);
		g->room = room;
		KUNIT_ASSERT_EQ(test, xa_err(xa_store(&hotel, room, g,
						      GFP_KERNEL)), 0);
	}
	/* Erasing what the loop is at is allowed. */
	xa_for_each(&hotel, index, g) {
		KUNIT_EXPECT_EQ(test, index, (unsigned long)g->room);
		xa_erase(&hotel, index);
		kfree(g);
	}
	KUNIT_EXPECT_TRUE(test, xa_empty(&hotel));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(store_load_and_erase),
	KUNIT_CASE(an_error_is_an_entry_that_xa_err_reads),
	KUNIT_CASE(numbers_and_tags_instead_of_pointers),
	KUNIT_CASE(store_only_if_it_is_as_it_was),
	KUNIT_CASE(look_through_what_is_there),
	KUNIT_CASE(free_what_is_in_it_before_it),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_normal",
	.test_cases = cases,
};

kunit_test_suite(suite);

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The advanced interface: a cursor, struct xa_state, that several operations
 * share, and locks that the caller takes. The normal interface is made of it.
 */
#include <kunit/test.h>
#include <linux/xarray.h>

/*
 * Storing: under the lock, again for as long as memory is missing and some
 * can be had without the lock. This is all that xa_store() does.
 */
static int store(struct xarray *xa, unsigned long index, void *entry)
{
	XA_STATE(xas, xa, index);

	do {
		xas_lock(&xas);
		xas_store(&xas, entry);
		xas_unlock(&xas);
	} while (xas_nomem(&xas, GFP_KERNEL));
	return xas_error(&xas);
}

/*
 * Loading: without a lock one may meet an entry that says "look again". That
 * of xa_reserve() is none: it is NULL to users.
 */
static void *load(struct xarray *xa, unsigned long index)
{
	XA_STATE(xas, xa, index);
	void *entry;

	rcu_read_lock();
	do {
		entry = xas_load(&xas);
		if (xa_is_zero(entry))
			entry = NULL;
	} while (xas_retry(&xas, entry));
	rcu_read_unlock();
	return entry;
}

static void store_and_load_by_hand(struct kunit *test)
{
	static DEFINE_XARRAY(a);

	KUNIT_EXPECT_EQ(test, store(&a, 1UL << 30, xa_mk_value(1)), 0);
	KUNIT_EXPECT_PTR_EQ(test, load(&a, 1UL << 30), xa_mk_value(1));
	KUNIT_EXPECT_NULL(test, load(&a, 1));
	/* Both interfaces are of the same array. */
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&a, 1UL << 30), xa_mk_value(1));
	KUNIT_EXPECT_EQ(test, xa_reserve(&a, 2, GFP_KERNEL), 0);
	KUNIT_EXPECT_NULL(test, load(&a, 2));
	xa_destroy(&a);
}

static void errors_are_kept_in_the_state(struct kunit *test)
{
	static DEFINE_XARRAY(a);
	XA_STATE(xas, &a, 1);

	/* What comes after one does nothing: it is enough to ask at the end. */
	xas_lock(&xas);
	xas_set_err(&xas, -EXDEV);
	xas_store(&xas, xa_mk_value(1));
	KUNIT_EXPECT_NULL(test, xas_load(&xas));
	xas_unlock(&xas);
	KUNIT_EXPECT_EQ(test, xas_error(&xas), -EXDEV);
	KUNIT_EXPECT_TRUE(test, xa_empty(&a));
	/* Only a lack of memory is worth another try. */
	KUNIT_EXPECT_FALSE(test, xas_nomem(&xas, GFP_KERNEL));

	xas_reset(&xas);
	KUNIT_EXPECT_EQ(test, xas_error(&xas), 0);
}

static void one_walk_for_several_operations(struct kunit *test)
{
	static DEFINE_XARRAY(a);
	XA_STATE(xas, &a, 77);
	void *entry;

	xa_store(&a, 77, xa_mk_value(1), GFP_KERNEL);
	xas_lock(&xas);
	entry = xas_load(&xas);
	if (entry == xa_mk_value(1)) {
		/* Neither walks the tree again. */
		xas_store(&xas, xa_mk_value(2));
		xas_set_mark(&xas, XA_MARK_1);
	}
	KUNIT_EXPECT_PTR_EQ(test, xas_reload(&xas), xa_mk_value(2));
	KUNIT_EXPECT_TRUE(test, xas_get_mark(&xas, XA_MARK_1));
	/* As they are for a new entry. */
	xas_init_marks(&xas);
	KUNIT_EXPECT_FALSE(test, xas_get_mark(&xas, XA_MARK_1));
	xas_set_mark(&xas, XA_MARK_1);
	xas_clear_mark(&xas, XA_MARK_1);
	xas_unlock(&xas);
	KUNIT_EXPECT_FALSE(test, xa_marked(&a, XA_MARK_1));
	xa_destroy(&a);
}

static void memory_for_a_range_beforehand(struct kunit *test)
{
	static DEFINE_XARRAY(a);
	XA_STATE_ORDER(xas, &a, 256, 8);
	unsigned long index;

	do {
		xas_lock(&xas);
		xas_create_range(&xas);
		xas_unlock(&xas);
	} while (xas_nomem(&xas, GFP_KERNEL));
	KUNIT_ASSERT_EQ(test, xas_error(&xas), 0);

	/* All 256 go in with no memory but that. */
	xas_lock(&xas);
	for (index = 256; index < 512; index++) {
		xas_set(&xas, index);
		xas_store(&xas, xa_mk_value(index));
	}
	xas_unlock(&xas);
	KUNIT_EXPECT_EQ(test, xas_error(&xas), 0);
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&a, 511), xa_mk_value(511));
	xa_destroy(&a);
}

static unsigned long updates;

static void note_update(struct xa_node *node)
{
	updates++;
}

static void told_of_each_node_that_changes(struct kunit *test)
{
	static DEFINE_XARRAY(a);
	XA_STATE(xas, &a, 3);

	/* The page cache keeps a list of nodes without pages by this. */
	xa_store(&a, 3, xa_mk_value(3), GFP_KERNEL);
	updates = 0;
	xas_set_update(&xas, note_update);
	xas_lock(&xas);
	xas_store(&xas, NULL);
	xas_unlock(&xas);
	KUNIT_EXPECT_GT(test, updates, 0UL);
	KUNIT_EXPECT_TRUE(test, xa_empty(&a));
}

static void locked_for_softirqs_and_interrupts(struct kunit *test)
{
	static struct xarray a;
	XA_STATE(xas, &a, 1);
	unsigned long flags;

	xa_init_flags(&a, XA_FLAGS_LOCK_BH);
	do {
		xas_lock_bh(&xas);
		xas_store(&xas, xa_mk_value(1));
		xas_unlock_bh(&xas);
	} while (xas_nomem(&xas, GFP_KERNEL));
	xas_lock_bh(&xas);
	xas_store(&xas, NULL);
	xas_unlock_bh(&xas);
	KUNIT_EXPECT_TRUE(test, xa_empty(&a));

	xa_init_flags(&a, XA_FLAGS_LOCK_IRQ);
	xas_set(&xas, 2);
	do {
		xas_lock_irq(&xas);
		xas_store(&xas, xa_mk_value(2));
		xas_unlock_irq(&xas);
	} while (xas_nomem(&xas, GFP_KERNEL));
	/* Where nobody knows whether they are on. */
	xas_lock_irqsave(&xas, flags);
	xas_store(&xas, NULL);
	xas_unlock_irqrestore(&xas, flags);
	KUNIT_EXPECT_TRUE(test, xa_empty(&a));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(store_and_load_by_hand),
	KUNIT_CASE(errors_are_kept_in_the_state),
	KUNIT_CASE(one_walk_for_several_operations),
	KUNIT_CASE(memory_for_a_range_beforehand),
	KUNIT_CASE(told_of_each_node_that_changes),
	KUNIT_CASE(locked_for_softirqs_and_interrupts),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_advanced",
	.test_cases = cases,
};

kunit_test_suite(suite);

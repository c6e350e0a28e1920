// SPDX-License-Identifier: GPL-2.0-only
/*
 * The array's own lock, taken by whoever wants more than one call in one
 * piece, and the rules for it where only processes use an array.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/xarray.h>

/* What is in the array, and how much: both under the array's lock. */
struct shelf {
	struct xarray books;
	unsigned long count;
};

static int shelf_add(struct shelf *s, unsigned long index, void *book)
{
	int error;

	xa_lock(&s->books);
	/* If it needs memory it lets go of the lock meanwhile. */
	error = __xa_insert(&s->books, index, book, GFP_KERNEL);
	if (!error)
		s->count++;
	xa_unlock(&s->books);
	return error;
}

static void *shelf_take(struct shelf *s, unsigned long index)
{
	void *book;

	xa_lock(&s->books);
	book = __xa_erase(&s->books, index);
	if (book)
		s->count--;
	xa_unlock(&s->books);
	return book;
}

static void a_count_under_the_arrays_lock(struct kunit *test)
{
	static struct shelf s;

	xa_init(&s.books);
	KUNIT_EXPECT_EQ(test, shelf_add(&s, 3, xa_mk_value(1)), 0);
	KUNIT_EXPECT_EQ(test, shelf_add(&s, 3, xa_mk_value(2)), -EBUSY);
	KUNIT_EXPECT_EQ(test, shelf_add(&s, 4, xa_mk_value(3)), 0);
	KUNIT_EXPECT_EQ(test, s.count, 2UL);
	KUNIT_EXPECT_PTR_EQ(test, shelf_take(&s, 3), xa_mk_value(1));
	KUNIT_EXPECT_NULL(test, shelf_take(&s, 3));
	KUNIT_EXPECT_EQ(test, s.count, 1UL);
	xa_destroy(&s.books);
}

#define EACH	500UL

struct worker {
	struct shelf *shelf;
	unsigned long first;
	struct completion done;
};

/* Two at once, on indices that share nodes. */
static int work(void *data)
{
	struct worker *w = data;
	unsigned long n;

	for (n = 0; n < EACH; n++) {
		shelf_add(w->shelf, w->first + 2 * n, xa_mk_value(n));
		if (n % 64 == 0)
			cond_resched();
	}
	for (n = 0; n < EACH; n += 2)
		shelf_take(w->shelf, w->first + 2 * n);
	complete(&w->done);
	return 0;
}

static void several_threads_store_at_once(struct kunit *test)
{
	static struct shelf s;
	static struct worker workers[2];
	unsigned long index, found = 0;
	void *book;
	int i;

	xa_init(&s.books);
	for (i = 0; i < 2; i++) {
		workers[i].shelf = &s;
		workers[i].first = i;
		init_completion(&workers[i].done);
		KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(work, &workers[i],
							    "shelf/%d", i)));
	}
	for (i = 0; i < 2; i++)
		wait_for_completion(&workers[i].done);
	xa_for_each(&s.books, index, book)
		found++;
	KUNIT_EXPECT_EQ(test, found, EACH);
	KUNIT_EXPECT_EQ(test, s.count, found);
	xa_destroy(&s.books);
}

static void two_arrays_at_once(struct kunit *test)
{
	static DEFINE_XARRAY(from);
	static DEFINE_XARRAY(to);
	void *entry;

	xa_store(&from, 8, xa_mk_value(8), GFP_KERNEL);
	KUNIT_ASSERT_EQ(test, xa_reserve(&to, 8, GFP_KERNEL), 0);

	/* Always in the same order, which lockdep is told of. */
	xa_lock(&from);
	xa_lock_nested(&to, SINGLE_DEPTH_NESTING);
	entry = __xa_erase(&from, 8);
	__xa_store(&to, 8, entry, 0);
	xa_unlock(&to);
	xa_unlock(&from);

	KUNIT_EXPECT_TRUE(test, xa_empty(&from));
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&to, 8), xa_mk_value(8));
	xa_destroy(&to);
}

static void under_a_mutex_the_lock_is_still_needed(struct kunit *test)
{
	static DEFINE_MUTEX(mutex);
	static DEFINE_XARRAY(rules);

	/* The mutex is for what sleeps; functions with __ need the xa_lock. */
	mutex_lock(&mutex);
	xa_lock(&rules);
	KUNIT_EXPECT_EQ(test, xa_err(__xa_store(&rules, 1, xa_mk_value(1),
						GFP_KERNEL)), 0);
	xa_unlock(&rules);
	/* The others take it. */
	KUNIT_EXPECT_PTR_EQ(test, xa_erase(&rules, 1), xa_mk_value(1));
	mutex_unlock(&mutex);
}

static void only_if_nobody_has_it(struct kunit *test)
{
	static DEFINE_XARRAY(hints);

	if (xa_trylock(&hints)) {
		__xa_store(&hints, 1, xa_mk_value(1), GFP_NOWAIT);
		xa_unlock(&hints);
	}
	KUNIT_EXPECT_PTR_EQ(test, xa_load(&hints, 1), xa_mk_value(1));
	xa_destroy(&hints);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_count_under_the_arrays_lock),
	KUNIT_CASE(several_threads_store_at_once),
	KUNIT_CASE(two_arrays_at_once),
	KUNIT_CASE(under_a_mutex_the_lock_is_still_needed),
	KUNIT_CASE(only_if_nobody_has_it),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_locks",
	.test_cases = cases,
};

kunit_test_suite(suite);

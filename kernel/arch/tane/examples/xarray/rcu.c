// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looking up without a lock: xa_load() never waits for who stores. What it
 * gives may be erased in the same moment, so that the reader either is done
 * with it before it leaves the read-side section, or takes a reference there.
 */
#include <kunit/test.h>
#include <linux/kthread.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/xarray.h>

#define LIVE	0x600d
#define SLOTS	8

struct object {
	refcount_t users;
	unsigned int state;
	struct rcu_head rcu;
};

static struct object *object_new(void)
{
	struct object *o = kmalloc(sizeof(*o), GFP_KERNEL);

	if (o) {
		refcount_set(&o->users, 1);
		o->state = LIVE;
	}
	return o;
}

static void object_put(struct object *o)
{
	if (refcount_dec_and_test(&o->users)) {
		o->state = 0;
		kfree_rcu(o, rcu);
	}
}

/* The one pattern: find, and only keep what still has a user. */
static struct object *object_get(struct xarray *xa, unsigned long index)
{
	struct object *o;

	rcu_read_lock();
	o = xa_load(xa, index);
	if (o && !refcount_inc_not_zero(&o->users))
		o = NULL;
	rcu_read_unlock();
	return o;
}

struct reader {
	struct xarray *xa;
	unsigned long found, dead;
	bool stop;
	struct completion done;
};

static int read_all(void *data)
{
	struct reader *r = data;
	unsigned long index = 0;
	struct object *o;

	while (!READ_ONCE(r->stop)) {
		o = object_get(r->xa, index++ % SLOTS);
		if (o) {
			r->found++;
			r->dead += READ_ONCE(o->state) != LIVE;
			object_put(o);
		}
		cond_resched();
	}
	complete(&r->done);
	return 0;
}

static void who_holds_a_reference_has_a_live_object(struct kunit *test)
{
	static DEFINE_XARRAY(objects);
	static struct reader r;
	struct object *o, *old;
	unsigned long round = 0;

	r = (struct reader){ .xa = &objects };
	init_completion(&r.done);
	KUNIT_ASSERT_FALSE(test, IS_ERR(kthread_run(read_all, &r, "reader")));
	/* Until both have had their turns. */
	while (round < 4000 || (!READ_ONCE(r.found) && round < 1000000)) {
		o = object_new();
		if (!o)
			break;
		old = xa_store(&objects, round++ % SLOTS, o, GFP_KERNEL);
		if (xa_is_err(old)) {
			object_put(o);
			break;
		}
		if (old)
			object_put(old);
		cond_resched();
	}
	WRITE_ONCE(r.stop, true);
	wait_for_completion(&r.done);
	KUNIT_EXPECT_GE(test, round, 4000UL);
	KUNIT_EXPECT_GT(test, r.found, 0UL);
	KUNIT_EXPECT_EQ(test, r.dead, 0UL);

	xa_for_each(&objects, round, o) {
		xa_erase(&objects, round);
		object_put(o);
	}
	KUNIT_EXPECT_TRUE(test, xa_empty(&objects));
}

static void or_the_lock_keeps_it_there(struct kunit *test)
{
	static DEFINE_XARRAY(objects);
	struct object *o = object_new();

	KUNIT_ASSERT_NOT_NULL(test, o);
	xa_store(&objects, 1, o, GFP_KERNEL);
	/* Nobody erases it while the lock is held. */
	xa_lock(&objects);
	o = xa_load(&objects, 1);
	refcount_inc(&o->users);
	xa_unlock(&objects);

	object_put(xa_erase(&objects, 1));
	KUNIT_EXPECT_EQ(test, o->state, (unsigned int)LIVE);
	object_put(o);
}

static struct kunit_case cases[] = {
	KUNIT_CASE(who_holds_a_reference_has_a_live_object),
	KUNIT_CASE(or_the_lock_keeps_it_there),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_rcu",
	.test_cases = cases,
};

kunit_test_suite(suite);

// SPDX-License-Identifier: GPL-2.0-only
/*
 * An array that interrupts change too: XA_FLAGS_LOCK_IRQ, and the functions
 * that end in _irq where interrupts are known to be on. Who does not know
 * saves them: xa_lock_irqsave() and a function with __.
 */
#include <kunit/test.h>
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/xarray.h>

struct commands {
	struct xarray issued;
	struct hrtimer timer;
	unsigned long completed;
	struct completion all;
};

#define COMMANDS	64

/* In an interrupt, one command each time. */
static enum hrtimer_restart complete_one(struct hrtimer *timer)
{
	struct commands *c = container_of(timer, struct commands, timer);
	unsigned long flags;

	xa_lock_irqsave(&c->issued, flags);
	if (__xa_erase(&c->issued, c->completed))
		c->completed++;
	xa_unlock_irqrestore(&c->issued, flags);
	if (c->completed == COMMANDS) {
		complete(&c->all);
		return HRTIMER_NORESTART;
	}
	hrtimer_forward_now(timer, ns_to_ktime(10000));
	return HRTIMER_RESTART;
}

static void a_process_stores_and_an_interrupt_erases(struct kunit *test)
{
	static struct commands c;
	unsigned long tag;

	c.completed = 0;
	init_completion(&c.all);
	xa_init_flags(&c.issued, XA_FLAGS_LOCK_IRQ);
	hrtimer_init(&c.timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	c.timer.function = complete_one;
	hrtimer_start(&c.timer, ns_to_ktime(10000), HRTIMER_MODE_REL_HARD);

	for (tag = 0; tag < COMMANDS; tag++)
		KUNIT_ASSERT_EQ(test, xa_err(xa_store_irq(&c.issued, tag,
							  xa_mk_value(tag),
							  GFP_KERNEL)), 0);
	wait_for_completion(&c.all);
	hrtimer_cancel(&c.timer);
	KUNIT_EXPECT_TRUE(test, xa_empty(&c.issued));
	KUNIT_EXPECT_EQ(test, c.completed, (unsigned long)COMMANDS);
}

static void each_function_for_processes(struct kunit *test)
{
	static struct xarray a;
	u32 id, next = 5;

	xa_init_flags(&a, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ALLOC);
	KUNIT_EXPECT_EQ(test, xa_alloc_irq(&a, &id, xa_mk_value(1),
					   xa_limit_31b, GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, xa_alloc_cyclic_irq(&a, &id, xa_mk_value(2),
						  xa_limit_31b, &next,
						  GFP_KERNEL), 0);
	KUNIT_EXPECT_EQ(test, id, 5U);
	KUNIT_EXPECT_EQ(test, xa_insert_irq(&a, 0, xa_mk_value(3), GFP_KERNEL),
			-EBUSY);
	KUNIT_EXPECT_EQ(test, xa_reserve_irq(&a, 9, GFP_KERNEL), 0);
	KUNIT_EXPECT_PTR_EQ(test, xa_cmpxchg_irq(&a, 0, xa_mk_value(1),
						 xa_mk_value(4), GFP_KERNEL),
			    xa_mk_value(1));
	KUNIT_EXPECT_PTR_EQ(test, xa_erase_irq(&a, 0), xa_mk_value(4));
	xa_erase_irq(&a, 5);
	xa_erase_irq(&a, 9);
	KUNIT_EXPECT_TRUE(test, xa_empty(&a));
}

static struct kunit_case cases[] = {
	KUNIT_CASE(a_process_stores_and_an_interrupt_erases),
	KUNIT_CASE(each_function_for_processes),
	{}
};

static struct kunit_suite suite = {
	.name = "xarray_example_irq",
	.test_cases = cases,
};

kunit_test_suite(suite);

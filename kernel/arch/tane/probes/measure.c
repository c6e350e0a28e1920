// SPDX-License-Identifier: GPL-2.0-only
/*
 * One structure, measured with so many probes: registered one by one, found,
 * taken out. A look-up that finds the wrong thing is an error.
 */
#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/smp.h>

#include "probes.h"

/* Look-ups of a part, whole pieces: between two of them others may run. */
#define LOOKUPS		32768U
#define PIECE		1024U
#define TURNS		3
#define HOT		16U
/* The most that may pass until the other CPU registers, in jiffies. */
#define PATIENCE	(5 * HZ)

struct bench {
	const struct structure *s;
	struct probe *probes;
	/* As many addresses between those of probes. */
	unsigned long *misses;
	unsigned int count;
	/* Whoever registers or takes out. */
	struct mutex mutex;
	/* Addresses to look up, and what is to be found there. */
	unsigned int *picks;
	/* Of the other CPU. */
	bool stop;
	int error;
	unsigned int changes;
	struct completion done;
};

unsigned int chance(u32 *state, unsigned int below)
{
	/* Numerical Recipes' generator: its upper bits are good enough here. */
	*state = *state * 1664525 + 1013904223;
	return ((u64)*state * below) >> 32;
}

/* As register_kprobe() does: not twice at one address. */
static int add(struct bench *b, struct probe *p)
{
	int error;

	mutex_lock(&b->mutex);
	rcu_read_lock();
	error = b->s->find(p->addr) ? -EEXIST : 0;
	rcu_read_unlock();
	if (!error)
		error = b->s->add(p);
	mutex_unlock(&b->mutex);
	return error;
}

static void take_out(struct bench *b, struct probe *p)
{
	mutex_lock(&b->mutex);
	b->s->remove(p);
	mutex_unlock(&b->mutex);
}

static int add_all(struct bench *b, unsigned int from, unsigned int step)
{
	unsigned int i;
	int error = 0;

	for (i = from; i < b->count && !error; i += step) {
		error = add(b, &b->probes[i]);
		cond_resched();
	}
	return error;
}

static void take_all_out(struct bench *b, unsigned int from, unsigned int step)
{
	unsigned int i;

	for (i = from; i < b->count; i += step) {
		take_out(b, &b->probes[i]);
		cond_resched();
	}
	synchronize_rcu();
}

static unsigned int hits(struct bench *b, const unsigned int *picks)
{
	unsigned int i, wrong = 0;
	struct probe *p;

	for (i = 0; i < PIECE; i++) {
		p = &b->probes[picks[i]];
		wrong += b->s->find(p->addr) != p;
	}
	return wrong;
}

static unsigned int misses(struct bench *b, const unsigned int *picks)
{
	unsigned int i, wrong = 0;

	for (i = 0; i < PIECE; i++)
		wrong += !!b->s->find(b->misses[picks[i]]);
	return wrong;
}

typedef unsigned int (*piece_fn)(struct bench *b, const unsigned int *picks);

/* ns for all picks, and an error if one found what it should not. */
static int look(struct bench *b, piece_fn piece, u64 *ns)
{
	unsigned int i, wrong = 0;
	u64 start;

	for (i = 0; i < LOOKUPS; i += PIECE) {
		start = ktime_get_ns();
		rcu_read_lock();
		wrong += piece(b, b->picks + i);
		rcu_read_unlock();
		*ns += ktime_get_ns() - start;
		cond_resched();
	}
	return wrong ? -EIO : 0;
}

/* The least of some: others want the processor, and its caches. */
static int look_again(struct bench *b, piece_fn piece, u64 *ns)
{
	int i, error = 0;
	u64 once;

	*ns = U64_MAX;
	for (i = 0; i < TURNS && !error; i++) {
		once = 0;
		error = look(b, piece, &once);
		*ns = min(*ns, once);
	}
	return error;
}

/* Among @of probes, each @step one of them. */
static void pick(struct bench *b, unsigned int of, unsigned int step)
{
	u32 state = 1;
	unsigned int i;

	for (i = 0; i < LOOKUPS; i++)
		b->picks[i] = chance(&state, of) * step;
}

/* The other CPU: every second probe goes and comes. */
static int change(void *data)
{
	struct bench *b = data;

	while (!READ_ONCE(b->stop) && !b->error) {
		take_all_out(b, 1, 2);
		b->error = add_all(b, 1, 2);
		WRITE_ONCE(b->changes, b->changes + b->count / 2 * 2);
	}
	complete(&b->done);
	return 0;
}

static int during(struct bench *b, struct result *r)
{
	unsigned long until = jiffies + PATIENCE;
	unsigned int cpu = raw_smp_processor_id();
	unsigned int other = cpumask_any_but(cpu_online_mask, cpu);
	struct task_struct *task;
	int error = 0;

	if (other >= nr_cpu_ids || b->count < 2)
		return 0;
	pick(b, DIV_ROUND_UP(b->count, 2), 2);
	b->stop = false;
	b->changes = 0;
	init_completion(&b->done);
	task = kthread_create(change, b, "tane-probes");
	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_bind(task, other);
	wake_up_process(task);
	do {
		error = look(b, hits, &r->during_ns);
		r->during += LOOKUPS;
		r->meanwhile = READ_ONCE(b->changes);
	} while (!error && !r->meanwhile && time_before(jiffies, until));
	WRITE_ONCE(b->stop, true);
	wait_for_completion(&b->done);
	return error ?: b->error;
}

static int lookups(struct bench *b, struct result *r)
{
	int error;

	/* Not the probes that came last: they head their lists. */
	pick(b, b->count, 1);
	r->uniform = LOOKUPS;
	error = look_again(b, hits, &r->uniform_ns);
	if (error)
		return error;
	r->miss = LOOKUPS;
	error = look_again(b, misses, &r->miss_ns);
	if (error)
		return error;
	pick(b, min(HOT, b->count), max(b->count / HOT, 1U));
	r->hot = LOOKUPS;
	return look_again(b, hits, &r->hot_ns);
}

static int run(struct bench *b, struct result *r)
{
	int error = b->s->init();
	u64 start;

	if (error)
		return error;
	start = ktime_get_ns();
	error = add_all(b, 0, 1);
	r->register_ns = ktime_get_ns() - start;
	r->bytes = b->s->bytes(b->count);
	if (!error)
		error = lookups(b, r);
	if (!error)
		error = during(b, r);
	start = ktime_get_ns();
	if (!error)
		take_all_out(b, 0, 1);
	r->unregister_ns = ktime_get_ns() - start;
	b->s->destroy();
	return error;
}

int measure(const struct structure *s, unsigned int count, struct result *r)
{
	struct bench b = { .s = s, .count = count };
	unsigned long *at;
	unsigned int i, j;
	u32 state = 7;
	int error = -ENOMEM;

	mutex_init(&b.mutex);
	at = kvmalloc_array(count, 2 * sizeof(*at), GFP_KERNEL);
	b.misses = kvmalloc_array(count, sizeof(*b.misses), GFP_KERNEL);
	b.probes = kvcalloc(count, sizeof(*b.probes), GFP_KERNEL);
	b.picks = kvmalloc_array(LOOKUPS, sizeof(*b.picks), GFP_KERNEL);
	if (at && b.misses && b.probes && b.picks)
		error = addresses(at, 2 * count);
	if (!error) {
		/* They come in no order, as those of people do. */
		for (i = 0; i < count; i++) {
			j = i + chance(&state, count - i);
			swap(at[2 * i], at[2 * j]);
			b.probes[i].addr = at[2 * i];
			b.misses[i] = at[2 * i + 1];
		}
		error = run(&b, r);
	}
	kvfree(b.picks);
	kvfree(b.probes);
	kvfree(b.misses);
	kvfree(at);
	return error;
}

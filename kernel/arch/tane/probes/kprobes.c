// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/tane-kprobes: the kernel's own probes, measured where there are many.
 *
 * Write "COUNT", then read from the same open file: one part a line, the
 * nanoseconds that it took in all, and how many it were.
 *
 *	register	one by one, none of them armed
 *	uniform		get_kprobe() of any of them
 *	miss		of addresses without one
 *	hot		of sixteen of them
 *	plain		calls of a function without a probe
 *	probed		and with one, by ftrace, while all others are there
 *	unregister	all at once
 */
#include <asm/insn.h>
#include <asm/sections.h>
#include <linux/init.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "probes.h"

#define LOOKUPS		32768U
#define PIECE		1024U
#define TURNS		3
#define CALLS		100000U
#define HOT		16U
/* Instructions from one probe to the next within a function. */
#define STRIDE		3

struct many {
	struct kprobe *probes;
	/* Those that are registered: where Linux allows one. */
	struct kprobe **there;
	/* Where functions begin, and where the next probe of each would be. */
	unsigned long *functions, *next;
	unsigned int wanted, count;
	u64 register_ns, unregister_ns;
};

static DEFINE_MUTEX(many_mutex);

static noinline notrace int nothing(struct kprobe *p, struct pt_regs *regs)
{
	return 0;
}

/* What is called, with a probe and without. */
static noinline unsigned long called(unsigned long n)
{
	barrier();
	return n + 1;
}

/* The next instruction behind this one, 0 if none is understood there. */
static unsigned long behind(unsigned long at, unsigned long end)
{
	struct insn insn;

	if (insn_decode_kernel(&insn, (void *)at) || at + insn.length >= end)
		return 0;
	return at + insn.length;
}

static int add(struct many *m, unsigned long at)
{
	struct kprobe *p = &m->probes[m->count];
	u64 start = ktime_get_ns();
	int error;

	memset(p, 0, sizeof(*p));
	p->addr = (kprobe_opcode_t *)at;
	p->pre_handler = nothing;
	p->flags = KPROBE_FLAG_DISABLED;
	error = register_kprobe(p);
	/* Where none may be it costs something, too, but that is not the matter. */
	if (!error) {
		m->register_ns += ktime_get_ns() - start;
		m->there[m->count++] = p;
	}
	cond_resched();
	return error == -ENOMEM ? error : 0;
}

/*
 * At functions' starts, and then at every third instruction of each, for as
 * long as there are some.
 */
static int add_all(struct many *m, unsigned int functions)
{
	unsigned long *next = m->next, *ends = m->functions + 1;
	unsigned int i, n, before;
	int error = 0;

	memcpy(next, m->functions, functions * sizeof(*next));
	do {
		before = m->count;
		for (i = 0; i < functions && m->count < m->wanted; i++) {
			if (!next[i])
				continue;
			error = add(m, next[i]);
			if (error || fatal_signal_pending(current))
				return error ?: -EINTR;
			for (n = 0; n < STRIDE && next[i]; n++)
				next[i] = behind(next[i], ends[i]);
		}
	} while (m->count < m->wanted && m->count > before);
	return m->count == m->wanted ? 0 : -E2BIG;
}

/* ns for so many look-ups among @of probes, each @step one, or @off them. */
static int look(struct many *m, unsigned int of, unsigned int step,
		unsigned long off, u64 *ns)
{
	unsigned int i, j, wrong = 0;
	struct kprobe *p, *found;
	u32 state = 1;
	u64 start;
	static unsigned int picks[PIECE];

	for (i = 0; i < LOOKUPS; i += PIECE) {
		for (j = 0; j < PIECE; j++)
			picks[j] = chance(&state, of) * step;
		start = ktime_get_ns();
		preempt_disable();
		for (j = 0; j < PIECE; j++) {
			p = m->there[picks[j]];
			found = get_kprobe(p->addr + off);
			/*
			 * Linux may have put one of its own in its place, and
			 * pieces of assembly may be two bytes long.
			 */
			wrong += found ? found->addr != p->addr + off : !off;
		}
		preempt_enable();
		*ns += ktime_get_ns() - start;
		cond_resched();
	}
	return wrong ? -EIO : 0;
}

/* The least of some: others want the processor, and its caches. */
static int look_again(struct many *m, unsigned int of, unsigned int step,
		      unsigned long off, u64 *ns)
{
	int i, error = 0;
	u64 once;

	*ns = U64_MAX;
	for (i = 0; i < TURNS && !error; i++) {
		once = 0;
		error = look(m, of, step, off, &once);
		*ns = min(*ns, once);
	}
	return error;
}

static u64 call_once(void)
{
	unsigned long n = 0;
	u64 start = ktime_get_ns();
	unsigned int i;

	for (i = 0; i < CALLS; i++)
		n = called(n);
	return n == CALLS ? ktime_get_ns() - start : 0;
}

static u64 call(void)
{
	u64 least = U64_MAX;
	int i;

	for (i = 0; i < TURNS; i++)
		least = min(least, call_once());
	return least;
}

static int hit(u64 *plain, u64 *probed)
{
	struct kprobe probe = {
		.addr = (kprobe_opcode_t *)called,
		.pre_handler = nothing,
	};
	int error;

	*plain = call();
	error = register_kprobe(&probe);
	if (error)
		return error;
	*probed = call();
	unregister_kprobe(&probe);
	return 0;
}

static int lookups(struct many *m, u64 ns[5])
{
	/*
	 * Two bytes into a function's first instruction, of five, nobody has a
	 * probe; the first probes are at functions' starts.
	 */
	unsigned int starts = min(m->count, m->wanted / 4 + 1);
	unsigned int hot = min(HOT, m->count);
	int error = look_again(m, m->count, 1, 0, &ns[0]);

	if (!error)
		error = look_again(m, starts, 1, 2, &ns[1]);
	if (!error)
		error = look_again(m, hot, max(m->count / HOT, 1U), 0,
				   &ns[2]);
	return error ?: hit(&ns[3], &ns[4]);
}

static char *run(struct many *m, unsigned int functions, int *error)
{
	u64 start, ns[5] = {};
	unsigned int n;

	*error = add_all(m, functions);
	if (!*error)
		*error = lookups(m, ns);
	n = m->count;
	start = ktime_get_ns();
	unregister_kprobes(m->there, n);
	m->unregister_ns = ktime_get_ns() - start;
	if (*error)
		return NULL;
	return kasprintf(GFP_KERNEL,
			 "register %llu %u\nuniform %llu %u\nmiss %llu %u\n"
			 "hot %llu %u\nplain %llu %u\nprobed %llu %u\n"
			 "unregister %llu %u\n",
			 m->register_ns, n, ns[0], LOOKUPS, ns[1], LOOKUPS,
			 ns[2], LOOKUPS, ns[3], CALLS, ns[4], CALLS,
			 m->unregister_ns, n);
}

static char *measure_kprobes(unsigned int count, int *error)
{
	struct many m = { .wanted = count };
	unsigned int functions;
	char *text = NULL;

	*error = all_functions(&m.functions, &functions);
	if (*error)
		return NULL;
	m.next = kvmalloc_array(functions, sizeof(*m.next), GFP_KERNEL);
	m.probes = kvcalloc(count, sizeof(*m.probes), GFP_KERNEL);
	m.there = kvcalloc(count, sizeof(*m.there), GFP_KERNEL);
	*error = -ENOMEM;
	if (m.next && m.probes && m.there)
		text = run(&m, functions, error);
	kvfree(m.there);
	kvfree(m.probes);
	kvfree(m.next);
	kvfree(m.functions);
	if (!text && !*error)
		*error = -ENOMEM;
	return text;
}

static ssize_t kprobes_write(struct file *file, const char __user *from,
			     size_t len, loff_t *pos)
{
	unsigned int count;
	char *text;
	int error;

	error = kstrtouint_from_user(from, len, 0, &count);
	if (error)
		return error;
	if (!count || count > MOST_PROBES)
		return -EINVAL;
	error = mutex_lock_interruptible(&many_mutex);
	if (error)
		return error;
	text = measure_kprobes(count, &error);
	mutex_unlock(&many_mutex);
	if (!text)
		return error;
	kfree(xchg(&file->private_data, text));
	*pos = 0;
	return len;
}

static const struct proc_ops kprobes_ops = {
	.proc_read	= answer_read,
	.proc_write	= kprobes_write,
	.proc_lseek	= default_llseek,
	.proc_release	= answer_release,
};

static int __init kprobes_init(void)
{
	if (!proc_create("tane-kprobes", 0600, NULL, &kprobes_ops))
		return -ENOMEM;
	return 0;
}
late_initcall(kprobes_init);

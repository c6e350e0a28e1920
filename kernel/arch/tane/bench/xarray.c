// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/tane/xarray: the XArray beside hash tables of 64 and 512 slots.
 *
 * Write "STRUCTURE KEYS COUNT", then read from the same open file: for each
 * part the nanoseconds that it took for all entries, one part a line, and the
 * bytes that the structure takes with all of them in it, beside the entries.
 *
 *	STRUCTURE	xarray, hash64, hash512
 *	KEYS		dense (0, 1, 2, ...), sparse (every 1024th), random
 *	COUNT		of entries, 1 to 65536
 *
 *	store		each entry under its key, replacing what is there
 *	load		each entry by its key
 *	iterate		over all entries
 *	mark		every 8th entry, and iterate over the marked ones
 *	erase		each entry by its key
 *	memory		bytes: nodes, or slots and what each entry has for its list
 *
 * Few entries take too little time to be measured: all parts are repeated
 * until enough were handled, and the times are averages of the repetitions.
 */
#include <linux/hash.h>
#include <linux/hashtable.h>
#include <linux/init.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#define MAX_ENTRIES	65536U
/* Entries that all repetitions together handle, at the least. */
#define ENOUGH		32768U
#define MARK_EVERY	8

enum part { STORE, LOAD, ITERATE, MARK, ERASE, PARTS };

static const char * const part_names[] = {
	"store", "load", "iterate", "mark", "erase"
};

struct entry {
	struct hlist_node node;
	unsigned long key;
	bool marked;
};

/* What is measured: one of the two, and the entries to put in. */
struct bench {
	struct xarray xa;
	struct hlist_head *slots;
	unsigned int bits;
	struct entry *entries;
	unsigned int count;
};

/* One after the other, or they would measure each other. */
static DEFINE_MUTEX(bench_mutex);

static struct hlist_head *slot(struct bench *b, unsigned long key)
{
	return &b->slots[hash_long(key, b->bits)];
}

static struct entry *hash_find(struct bench *b, unsigned long key)
{
	struct entry *e;

	hlist_for_each_entry(e, slot(b, key), node)
		if (e->key == key)
			return e;
	return NULL;
}

static int hash_store(struct bench *b)
{
	struct entry *e, *old;

	for (e = b->entries; e < b->entries + b->count; e++) {
		old = hash_find(b, e->key);
		if (old)
			hlist_del(&old->node);
		hlist_add_head(&e->node, slot(b, e->key));
	}
	return 0;
}

static int xarray_store(struct bench *b)
{
	struct entry *e;
	int error;

	for (e = b->entries; e < b->entries + b->count; e++) {
		error = xa_err(xa_store(&b->xa, e->key, e, GFP_KERNEL));
		if (error)
			return error;
	}
	return 0;
}

static int hash_load(struct bench *b)
{
	struct entry *e;

	for (e = b->entries; e < b->entries + b->count; e++)
		if (hash_find(b, e->key) != e)
			return -EIO;
	return 0;
}

static int xarray_load(struct bench *b)
{
	struct entry *e;

	for (e = b->entries; e < b->entries + b->count; e++)
		if (xa_load(&b->xa, e->key) != e)
			return -EIO;
	return 0;
}

static unsigned int hash_count(struct bench *b, bool marked)
{
	unsigned int i, found = 0;
	struct entry *e;

	for (i = 0; i < 1U << b->bits; i++)
		hlist_for_each_entry(e, &b->slots[i], node)
			found += !marked || e->marked;
	return found;
}

static int hash_iterate(struct bench *b)
{
	return hash_count(b, false) == b->count ? 0 : -EIO;
}

static int xarray_iterate(struct bench *b)
{
	unsigned int found = 0;
	unsigned long key;
	struct entry *e;

	xa_for_each(&b->xa, key, e)
		found++;
	return found == b->count ? 0 : -EIO;
}

static int hash_mark(struct bench *b)
{
	unsigned int i, set = 0;

	for (i = 0; i < b->count; i += MARK_EVERY, set++)
		hash_find(b, b->entries[i].key)->marked = true;
	return hash_count(b, true) == set ? 0 : -EIO;
}

static int xarray_mark(struct bench *b)
{
	unsigned int i, set = 0, found = 0;
	unsigned long key;
	struct entry *e;

	for (i = 0; i < b->count; i += MARK_EVERY, set++)
		xa_set_mark(&b->xa, b->entries[i].key, XA_MARK_0);
	xa_for_each_marked(&b->xa, key, e, XA_MARK_0)
		found++;
	return found == set ? 0 : -EIO;
}

static int hash_erase(struct bench *b)
{
	struct entry *e;
	unsigned int i;

	for (i = 0; i < b->count; i++) {
		e = hash_find(b, b->entries[i].key);
		if (!e)
			return -EIO;
		hlist_del(&e->node);
		e->marked = false;
	}
	return 0;
}

static int xarray_erase(struct bench *b)
{
	struct entry *e;

	for (e = b->entries; e < b->entries + b->count; e++)
		if (xa_erase(&b->xa, e->key) != e)
			return -EIO;
	return 0;
}

static size_t hash_bytes(struct bench *b)
{
	return sizeof(*b->slots) * (1UL << b->bits) +
	       sizeof(struct hlist_node) * b->count;
}

/* Nodes from this entry on; the deepest tree has eleven levels. */
static size_t nodes(const void *entry)
{
	const struct xa_node *node;
	size_t found = 1;
	unsigned int i;

	if (!xa_is_node(entry))
		return 0;
	node = xa_to_node(entry);
	for (i = 0; node->shift && i < XA_CHUNK_SIZE; i++)
		found += nodes(rcu_dereference_protected(node->slots[i], true));
	return found;
}

static size_t xarray_bytes(struct bench *b)
{
	const void *head = rcu_dereference_protected(b->xa.xa_head, true);

	return sizeof(struct xa_node) * nodes(head);
}

typedef int (*part_fn)(struct bench *b);

static const part_fn hash_parts[PARTS] = {
	hash_store, hash_load, hash_iterate, hash_mark, hash_erase
};

static const part_fn xarray_parts[PARTS] = {
	xarray_store, xarray_load, xarray_iterate, xarray_mark, xarray_erase
};

static const struct structure {
	const char *name;
	const part_fn *parts;
	size_t (*bytes)(struct bench *b);
	unsigned int bits;
} structures[] = {
	{ "xarray", xarray_parts, xarray_bytes, 0 },
	{ "hash64", hash_parts, hash_bytes, 6 },
	{ "hash512", hash_parts, hash_bytes, 9 },
};

struct result {
	u64 times[PARTS];
	size_t bytes;
};

static int fill(struct bench *b, const char *keys)
{
	struct rnd_state random;
	unsigned int i;

	prandom_seed_state(&random, b->count);
	for (i = 0; i < b->count; i++) {
		struct entry *e = &b->entries[i];

		if (!strcmp(keys, "dense"))
			e->key = i;
		else if (!strcmp(keys, "sparse"))
			e->key = i * 1024UL;
		else if (!strcmp(keys, "random"))
			/* No key twice: the low bits tell them apart. */
			e->key = (u64)prandom_u32_state(&random) << 16 | i;
		else
			return -EINVAL;
	}
	return 0;
}

static int measure(struct bench *b, const struct structure *s,
		   struct result *result)
{
	unsigned int rounds = DIV_ROUND_UP(ENOUGH, b->count);
	unsigned int round, part;
	u64 start;
	int error;

	for (round = 0; round < rounds; round++) {
		for (part = 0; part < PARTS; part++) {
			start = ktime_get_ns();
			error = s->parts[part](b);
			result->times[part] += ktime_get_ns() - start;
			if (error)
				return error;
			if (part == STORE)
				result->bytes = s->bytes(b);
		}
		cond_resched();
	}
	for (part = 0; part < PARTS; part++)
		result->times[part] = div_u64(result->times[part], rounds);
	return 0;
}

static int run(const struct structure *s, const char *keys, unsigned int count,
	       struct result *result)
{
	struct bench b = { .bits = s->bits, .count = count };
	int error = -ENOMEM;

	xa_init(&b.xa);
	b.entries = kvcalloc(count, sizeof(*b.entries), GFP_KERNEL);
	b.slots = kvcalloc(1U << s->bits, sizeof(*b.slots), GFP_KERNEL);
	if (b.entries && b.slots) {
		error = fill(&b, keys);
		if (!error)
			error = measure(&b, s, result);
	}
	xa_destroy(&b.xa);
	kvfree(b.slots);
	kvfree(b.entries);
	return error;
}

static ssize_t bench_write(struct file *file, const char __user *from,
			   size_t len, loff_t *pos)
{
	char request[64], name[16], keys[16];
	struct result result = {};
	unsigned int count, i;
	size_t used = 0;
	char *answer;
	int error;

	if (len >= sizeof(request))
		return -EINVAL;
	if (copy_from_user(request, from, len))
		return -EFAULT;
	request[len] = '\0';
	if (sscanf(request, "%15s %15s %u", name, keys, &count) != 3 ||
	    !count || count > MAX_ENTRIES)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(structures); i++)
		if (!strcmp(name, structures[i].name))
			break;
	if (i == ARRAY_SIZE(structures))
		return -EINVAL;

	answer = kzalloc(PAGE_SIZE, GFP_KERNEL);
	if (!answer)
		return -ENOMEM;
	error = mutex_lock_interruptible(&bench_mutex);
	if (!error) {
		error = run(&structures[i], keys, count, &result);
		mutex_unlock(&bench_mutex);
	}
	if (error) {
		kfree(answer);
		return error;
	}
	for (i = 0; i < PARTS; i++)
		used += scnprintf(answer + used, PAGE_SIZE - used, "%s %llu\n",
				  part_names[i], result.times[i]);
	scnprintf(answer + used, PAGE_SIZE - used, "memory %zu\n", result.bytes);
	kfree(xchg(&file->private_data, answer));
	*pos = 0;
	return len;
}

static ssize_t bench_read(struct file *file, char __user *to, size_t len,
			  loff_t *pos)
{
	const char *answer = file->private_data;

	if (!answer)
		return 0;
	return simple_read_from_buffer(to, len, pos, answer, strlen(answer));
}

static int bench_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

static const struct proc_ops bench_ops = {
	.proc_read	= bench_read,
	.proc_write	= bench_write,
	.proc_lseek	= default_llseek,
	.proc_release	= bench_release,
};

static int __init bench_init(void)
{
	struct proc_dir_entry *dir = proc_mkdir("tane", NULL);

	if (!dir || !proc_create("xarray", 0600, dir, &bench_ops))
		return -ENOMEM;
	return 0;
}
late_initcall(bench_init);

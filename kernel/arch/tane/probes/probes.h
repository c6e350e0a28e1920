/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Finding one of many probes by its address, as kernel/kprobes.c has to: who
 * registers holds a mutex, who looks up holds nothing but RCU's read side.
 *
 *   file.c       /proc/tane-probes: what is asked, what is answered
 *   measure.c    one structure, from the first probe to the last
 *   addresses.c  addresses as probes have them
 *   table.c, xarray.c, cached.c, rhash.c   the structures
 *   kprobes.c    /proc/tane-kprobes: kernel/kprobes.c itself, where there is one
 */
#ifndef _TANE_PROBES_H
#define _TANE_PROBES_H

#include <linux/rhashtable-types.h>
#include <linux/types.h>

#define MOST_PROBES	32768U

struct probe {
	unsigned long addr;
	union {
		struct hlist_node hlist;
		struct rhash_head rhash;
	};
	/* What kprobes have beside these: two probes share no cache line. */
	unsigned long rest[13];
};

/*
 * A structure for probes. There is one of each in use at a time.
 *
 * @add and @remove are called under a mutex, @find under RCU with @add and
 * @remove going on. A probe that was removed is added again, or freed, after
 * a grace period. @bytes is what the structure takes for @count probes, the
 * probes' own heads included.
 */
struct structure {
	const char *name;
	int (*init)(void);
	int (*add)(struct probe *p);
	void (*remove)(struct probe *p);
	struct probe *(*find)(unsigned long addr);
	size_t (*bytes)(unsigned int count);
	void (*destroy)(void);
};

extern const struct structure table64, table512, by_address, by_offset, cached,
			      rhash;

/* In nanoseconds for all, and of how many. */
struct result {
	u64 register_ns, unregister_ns;
	u64 uniform_ns, hot_ns, miss_ns, during_ns;
	unsigned int uniform, hot, miss, during;
	/* Registrations while the look-ups of during went on; 0: no CPU for them */
	unsigned int meanwhile;
	size_t bytes;
};

int measure(const struct structure *s, unsigned int count, struct result *r);

/* All functions' starts, ascending, and the end of the text behind them; to be freed. */
int all_functions(unsigned long **starts, unsigned int *count);

/* So many addresses in the kernel's text, each once, ascending. */
int addresses(unsigned long *to, unsigned int count);

/* A number below a limit, the next from this state. */
unsigned int chance(u32 *state, unsigned int below);

/* Of a file whose write left a text in private_data. */
struct file;
struct inode;
ssize_t answer_read(struct file *file, char __user *to, size_t len, loff_t *pos);
int answer_release(struct inode *inode, struct file *file);

#endif /* _TANE_PROBES_H */

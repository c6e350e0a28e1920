// SPDX-License-Identifier: GPL-2.0-only
/*
 * Looks for a word in every file below a directory, as grep -r does: as a module beside a
 * kernel, and as code of the host's, by its system calls.
 */
#define AT_FDCWD (-100)
#define DIRECTORY 0200000
#define DT_DIR 4

#ifdef ON_HOST
static long call(long nr, long a, const void *b, long c)
{
	register long d __asm__("r10") = 0;
	long result;

	__asm__ volatile("syscall" : "=a" (result)
			 : "a" (nr), "D" (a), "S" (b), "d" (c), "r" (d)
			 : "rcx", "r11", "memory");
	return result;
}

#define read(fd, to, bytes) call(0, fd, to, bytes)
#define close(fd) call(3, fd, 0, 0)
#define getdents64(fd, to, bytes) call(217, fd, to, bytes)
#define openat(dir, path, flags, mode) call(257, dir, path, flags)
#else
#include <tane/module.h>
#endif

struct entry {
	unsigned long inode;
	long offset;
	unsigned short bytes;
	unsigned char type;
	char name[];
};

typedef char vector __attribute__((vector_size(16), may_alias, aligned(1)));

static const char word[] = "needle";
#define WORD ((long)sizeof(word) - 1)

/* What is behind the end is no matter: the word is looked for where its first byte is. */
static char buffer[65536 + 16];

static int is_here(const char *at)
{
	for (long i = 1; i < WORD; i++)
		if (at[i] != word[i])
			return 0;
	return 1;
}

static int has_word(long bytes)
{
	vector first = (vector){} + word[0];

	for (long at = 0; at < bytes; at += 16) {
		vector same = *(const vector *)(buffer + at) == first;
		unsigned hits = __builtin_ia32_pmovmskb128(same);

		for (; hits; hits &= hits - 1) {
			long here = at + __builtin_ctz(hits);

			if (here + WORD <= bytes && is_here(buffer + here))
				return 1;
		}
	}
	return 0;
}

/* Files, and above 32 bits those with the word; -1 for what cannot be read. */
static long file(int dir, const char *name)
{
	long fd = openat(dir, name, 0, 0), n, found = 0;

	if (fd < 0)
		return -1;
	while ((n = read(fd, buffer, 65536)) > 0)
		found |= has_word(n);
	close(fd);
	return n < 0 ? -1 : 1 + (found << 32);
}

static long directory(int above, const char *name, int depth)
{
	char entries[16384];
	long dir = openat(above, name, DIRECTORY, 0), n, all = 0;

	if (dir < 0 || depth > 8)
		return -1;
	while ((n = getdents64(dir, entries, sizeof(entries))) > 0) {
		for (long at = 0; at < n;) {
			struct entry *it = (struct entry *)(entries + at);
			long one = 0;

			at += it->bytes;
			if (it->name[0] == '.' || it->name[0] == 'l')
				continue;
			one = it->type == DT_DIR ? directory(dir, it->name, depth + 1) :
						   file(dir, it->name);
			if (one < 0)
				return -1;
			all += one;
		}
	}
	close(dir);
	return n < 0 ? -1 : all;
}

long work(long dir)
{
	return directory(dir, ".", 0);
}

#ifdef FILES
int main(void)
{
	return work(AT_FDCWD) != FILES;
}
#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Read all files below a directory of a disk image, 32 at a time through one
 * io_uring and into a registered buffer, and print what cksum(1) prints of each.
 *
 *   cc -o uring uring.c -ltane && ./uring disk.img /etc
 *   ./uring --poll disk.img /etc     a thread of the kernel takes the requests
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "ring.h"

#define FILES 32
#define CHUNK (128 << 10)

enum step { OPEN, READ, CLOSE };

/* A file under way. */
struct slot {
	char path[8192];	/* from the root of the mount; "": free */
	uint64_t size, offset;
	uint32_t sum;
};

static struct slot slots[FILES];
static struct ring ring;
static struct tane_mount *mount;
static struct tane_dir *dir;
static char *buffer;	/* a chunk for each slot */
static unsigned long files, requests;

static void need(int64_t result)
{
	if (result >= 0)
		return;
	fprintf(stderr, "uring: %s\n", tane_error_message());
	exit(1);
}

/* For what the ring answers, which has no message. */
static void done(int64_t result, const char *action, const char *path)
{
	if (result >= 0)
		return;
	fprintf(stderr, "uring: %s %s: %s\n", action, path, strerror(-result));
	exit(1);
}

static uint32_t cksum(uint32_t sum, const char *bytes, size_t len)
{
	static uint32_t table[256];
	uint32_t i, bit;

	for (i = 0; i < 256 && !table[255]; i++)
		for (table[i] = i << 24, bit = 0; bit < 8; bit++)
			table[i] = table[i] << 1 ^ (table[i] >> 31) * 0x04c11db7;
	while (len--)
		sum = sum << 8 ^ table[sum >> 24 ^ (unsigned char)*bytes++];
	return sum;
}

/* The next file goes into this slot; 0 if there are no more. */
static int next(struct slot *slot)
{
	struct tane_dirent entry = { .size = sizeof(entry) };
	struct tane_stat stat = { .size = sizeof(stat) };
	const char *path;
	int more;

	while ((more = tane_readdir(dir, &entry)) > 0) {
		if (more == 2)	/* another directory begins */
			continue;
		need(tane_entry_stat(dir, &stat));
		if (!S_ISREG(stat.mode))
			continue;
		path = tane_dir_path(dir);
		path += strspn(path, "/");
		snprintf(slot->path, sizeof(slot->path), "%s%s%s", path,
			 *path ? "/" : "", entry.name);
		slot->size = stat.length;
		slot->offset = 0;
		slot->sum = 0;
		return 1;
	}
	need(more);
	return 0;
}

static struct io_uring_sqe *request(int index, enum step step)
{
	struct io_uring_sqe *entry = ring_push(&ring);

	entry->user_data = index << 2 | step;
	requests++;
	return entry;
}

/* The next chunk of a file; it is opened before the first, closed after the last. */
static void advance(int index)
{
	struct slot *slot = &slots[index];
	struct io_uring_sqe *entry;

	if (slot->offset == 0) {
		entry = request(index, OPEN);
		entry->opcode = IORING_OP_OPENAT;
		entry->flags = IOSQE_IO_LINK;
		entry->fd = tane_mount_fd(mount);
		entry->addr = (uintptr_t)slot->path;
		entry->open_flags = O_RDONLY | O_NOFOLLOW;
		entry->file_index = index + 1;
	}
	entry = request(index, READ);
	entry->opcode = IORING_OP_READ_FIXED;
	entry->flags = IOSQE_FIXED_FILE;
	entry->fd = index;
	entry->off = slot->offset;
	entry->addr = (uintptr_t)(buffer + index * CHUNK);
	entry->len = CHUNK;
	if (slot->size - slot->offset <= CHUNK) {
		/* Hard, since a read at the end of a file is a short one. */
		entry->flags |= IOSQE_IO_HARDLINK;
		entry = request(index, CLOSE);
		entry->opcode = IORING_OP_CLOSE;
		entry->file_index = index + 1;
	}
}

static void finish(struct slot *slot)
{
	uint64_t rest;
	char byte;

	/* The length, without zeroes at its end, is summed up, too. */
	for (rest = slot->size; rest; rest >>= 8) {
		byte = rest;
		slot->sum = cksum(slot->sum, &byte, 1);
	}
	printf("%u %llu %s\n", ~slot->sum, (unsigned long long)slot->size,
	       slot->path);
	slot->path[0] = 0;
	files++;
}

static void completed(const struct io_uring_cqe *completion)
{
	static const char *const actions[] = { "open", "read", "close" };
	int index = completion->user_data >> 2;
	enum step step = completion->user_data & 3;
	struct slot *slot = &slots[index];

	/* The rest of a chain that failed: its first request tells why. */
	if (completion->res == -ECANCELED)
		return;
	done(completion->res, actions[step], slot->path);
	if (step == READ) {
		uint64_t rest = slot->size - slot->offset;

		if ((uint32_t)completion->res != (rest < CHUNK ? rest : CHUNK))
			done(-EIO, "read to the end of", slot->path);
		slot->sum = cksum(slot->sum, buffer + index * CHUNK,
				  completion->res);
		slot->offset += completion->res;
	}
	if (step == CLOSE)
		finish(slot);
}

/* Requests for every slot, all told and waited for at once. */
static int batch(void)
{
	unsigned long before = requests;
	struct io_uring_cqe completion;
	int i;

	for (i = 0; i < FILES; i++)
		if (slots[i].path[0] || next(&slots[i]))
			advance(i);
	if (requests == before)
		return 0;
	done(ring_submit(&ring, requests - before), "submit", "to the ring");
	while (ring_next(&ring, &completion))
		completed(&completion);
	return 1;
}

int main(int argc, char **argv)
{
	struct tane_disk_options snapshot = {
		.size = sizeof(snapshot),
		.flags = TANE_DISK_SNAPSHOT,
	};
	int poll = argc > 1 && !strcmp(argv[1], "--poll"), none[FILES], i;
	struct tane_kernel *kernel;
	struct tane_buffer *memory;
	struct tane_disk *disk;
	struct iovec part;

	argv += poll;
	if (argc - poll != 3) {
		fprintf(stderr, "usage: uring [--poll] IMAGE DIRECTORY\n");
		return 2;
	}
	need(tane_kernel_boot(NULL, &kernel));
	need(tane_disk_open(kernel, argv[1], &snapshot, &disk));
	need(tane_mount(kernel, tane_disk_device(disk), NULL, &mount));
	need(tane_list(mount, argv[2], TANE_LIST_WALK | TANE_LIST_STAT, &dir));
	need(tane_buffer_alloc(kernel, FILES * CHUNK, &memory));
	buffer = tane_buffer_data(memory);

	/* A slot has at most three requests in a batch. */
	done(ring_open(&ring, kernel, FILES * 3, poll ? IORING_SETUP_SQPOLL : 0),
	     "set up", "a ring");
	part = (struct iovec){ buffer, FILES * CHUNK };
	done(ring_register(&ring, IORING_REGISTER_BUFFERS, &part, 1),
	     "register", "the buffer");
	for (i = 0; i < FILES; i++)
		none[i] = -1;
	done(ring_register(&ring, IORING_REGISTER_FILES, none, FILES),
	     "register", "places for files");
	while (batch())
		;
	need(ring_check(&ring));
	need(tane_buffer_check(memory));
	fprintf(stderr, "%lu files, %lu requests, %lu calls of io_uring_enter\n",
		files, requests, ring.calls);

	ring_close(&ring);
	tane_buffer_free(memory);
	tane_closedir(dir);
	/* A ring lets go of its files in its own time: this could be -EBUSY. */
	tane_unmount(mount);
	tane_disk_close(disk);
	tane_kernel_close(kernel);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises of io_uring with buffers of tane_buffer_alloc(). The arguments are an
 * ext4 image that has a file "data", and a file of the host's with the same bytes;
 * they are left in "written" and "written-direct", too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include "../examples/ring.h"
#include "check.h"

#define PAGE 4096
#define PIECE (16 * PAGE)
/* Before and behind what requests use of the buffer. */
#define EDGE PAGE
#define MARK 0x5e

static struct tane_kernel *kernel;
static struct tane_mount *mount;
/* What the file has, and its length in whole pages, which O_DIRECT moves. */
static unsigned char *data;
static size_t len, whole;

static struct ring open_ring(struct tane_buffer *buffer, size_t size, int flags)
{
	struct iovec part = { tane_buffer_data(buffer), size };
	struct ring ring;

	CHECK(ring_open(&ring, kernel, 8, flags) == 0);
	CHECK(ring_register(&ring, IORING_REGISTER_BUFFERS, &part, 1) == 0);
	return ring;
}

static struct io_uring_sqe *push(struct ring *ring, int opcode, int fd,
				 unsigned char *at, uint64_t offset)
{
	struct io_uring_sqe *entry = ring_push(ring);

	CHECK(entry);
	entry->opcode = opcode;
	entry->fd = fd;
	entry->off = offset;
	entry->addr = (uintptr_t)(at + offset);
	entry->len = whole - offset < PIECE ? whole - offset : PIECE;
	entry->user_data = offset;
	return entry;
}

/* Move all of a file, several pieces at a time, between it and memory at "at". */
static void move(struct ring *ring, int opcode, int fd, unsigned char *at)
{
	struct io_uring_cqe completion;
	unsigned int under_way = 0;
	size_t all = opcode == IORING_OP_READ_FIXED ? len : whole;
	uint64_t offset = 0, rest, moved = 0;

	do {
		for (; offset < whole && under_way < 8; offset += PIECE) {
			push(ring, opcode, fd, at, offset);
			under_way++;
		}
		CHECK(ring_submit(ring, 1) == 0);
		for (; ring_next(ring, &completion); under_way--) {
			rest = all - completion.user_data;
			CHECK(completion.res == (int)(rest < PIECE ? rest : PIECE));
			moved += completion.res;
		}
	} while (under_way || offset < whole);
	CHECK(moved == all);
}

static void read_into_a_registered_buffer(int direct)
{
	struct tane_buffer *buffer;
	struct tane_file *file;
	struct ring ring;
	unsigned char *bytes;
	size_t i;

	CHECK(tane_buffer_alloc(kernel, EDGE + whole + EDGE, &buffer) == 0);
	bytes = tane_buffer_data(buffer);
	memset(bytes, MARK, EDGE + whole + EDGE);
	ring = open_ring(buffer, EDGE + whole + EDGE, 0);
	CHECK(tane_open(mount, "data", O_RDONLY | direct, 0, &file) == 0);
	move(&ring, IORING_OP_READ_FIXED, tane_fd(file), bytes + EDGE);
	CHECK(!memcmp(bytes + EDGE, data, len));
	for (i = 0; i < EDGE; i++)
		CHECK(bytes[i] == MARK && bytes[EDGE + whole + i] == MARK);
	CHECK(ring_check(&ring) == 0 && tane_buffer_check(buffer) == 0);
	tane_close(file);
	ring_close(&ring);
	tane_buffer_free(buffer);
}

static void write_from_a_registered_buffer(int direct, const char *name)
{
	struct tane_buffer *buffer;
	struct tane_file *file;
	struct ring ring;
	unsigned char *bytes, *back = malloc(len);

	CHECK(back);
	CHECK(tane_buffer_alloc(kernel, whole, &buffer) == 0);
	bytes = tane_buffer_data(buffer);
	memcpy(bytes, data, len);
	ring = open_ring(buffer, whole, 0);
	CHECK(tane_open(mount, name, O_RDWR | O_CREAT | direct, 0600, &file) == 0);
	move(&ring, IORING_OP_WRITE_FIXED, tane_fd(file), bytes);
	tane_close(file);
	/* By the page cache, and with a buffer of ours. */
	CHECK(tane_open(mount, name, O_RDWR, 0, &file) == 0);
	CHECK(tane_ftruncate(file, len) == 0);
	CHECK(tane_pread(file, back, len, 0) == (int64_t)len);
	CHECK(!memcmp(back, data, len));
	CHECK(tane_fsync(file) == 0);
	tane_close(file);
	ring_close(&ring);
	tane_buffer_free(buffer);
	free(back);
}

static void ordinary_memory_cannot_be_registered(void)
{
	static unsigned char ordinary[PAGE] __attribute__((aligned(PAGE)));
	struct iovec part = { ordinary, PAGE };
	struct ring ring;

	CHECK(ring_open(&ring, kernel, 8, 0) == 0);
	CHECK(ring_register(&ring, IORING_REGISTER_BUFFERS, &part, 1) == -EFAULT);
	ring_close(&ring);
}

static void a_request_outside_of_its_buffer_is_efault(void)
{
	struct io_uring_cqe completion;
	struct tane_buffer *buffer;
	struct tane_file *file;
	struct ring ring;
	unsigned char *bytes;
	int i;

	CHECK(tane_buffer_alloc(kernel, 2 * PAGE, &buffer) == 0);
	bytes = tane_buffer_data(buffer);
	ring = open_ring(buffer, PAGE, 0);
	CHECK(tane_open(mount, "data", O_RDONLY, 0, &file) == 0);
	push(&ring, IORING_OP_READ_FIXED, tane_fd(file), bytes + 1, 0)->len = PAGE;
	CHECK(ring_submit(&ring, 1) == 0 && ring_next(&ring, &completion));
	CHECK(completion.res == -EFAULT);
	for (i = 0; i < 2 * PAGE; i++)
		CHECK(bytes[i] == 0);
	tane_close(file);
	ring_close(&ring);
	tane_buffer_free(buffer);
}

static void a_thread_of_the_kernel_takes_requests(void)
{
	struct io_uring_cqe completion;
	struct tane_buffer *buffer;
	struct tane_file *file;
	struct ring ring;

	CHECK(tane_buffer_alloc(kernel, PIECE, &buffer) == 0);
	ring = open_ring(buffer, PIECE, IORING_SETUP_SQPOLL);
	CHECK(tane_open(mount, "data", O_RDONLY | O_DIRECT, 0, &file) == 0);
	push(&ring, IORING_OP_READ_FIXED, tane_fd(file), tane_buffer_data(buffer),
	     0);
	/* At most this wakes the thread: nobody waits inside. */
	CHECK(ring_submit(&ring, 0) == 0);
	while (!ring_next(&ring, &completion))
		sched_yield();
	CHECK(completion.res == PIECE);
	CHECK(!memcmp(tane_buffer_data(buffer), data, PIECE));
	tane_close(file);
	ring_close(&ring);
	tane_buffer_free(buffer);
}

static void a_descriptor_becomes_a_file(void)
{
	struct tane_file *file = NULL;
	char back[4];
	int64_t fd;

	fd = tane_syscall(kernel, SYS_memfd_create, (uintptr_t)"made", 0, 0, 0, 0, 0);
	CHECK(fd >= 0);
	CHECK(tane_fdopen(kernel, fd, NULL) == -EFAULT);
	CHECK(tane_fdopen(NULL, fd, &file) == -EFAULT);
	CHECK(tane_fdopen(kernel, -1, &file) == -EBADF);
	CHECK(strstr(tane_error_message(), "descriptor -1") && !file);
	CHECK(tane_fdopen(kernel, fd, &file) == 0 && tane_fd(file) == fd);
	CHECK(tane_pwrite(file, "text", 4, 0) == 4);
	CHECK(tane_pread(file, back, 4, 0) == 4 && !memcmp(back, "text", 4));
	tane_close(file);
	CHECK(tane_fdopen(kernel, fd, &file) == -EBADF);
}

static void load(const char *path)
{
	struct stat stat;
	FILE *file = fopen(path, "rb");

	CHECK(file && !fstat(fileno(file), &stat));
	len = stat.st_size;
	whole = (len + PAGE - 1) / PAGE * PAGE;
	data = malloc(len);
	CHECK(data && fread(data, 1, len, file) == len);
	fclose(file);
}

int main(int argc, char **argv)
{
	struct tane_disk *disk;

	CHECK(argc == 3);
	load(argv[2]);
	CHECK(tane_kernel_boot(NULL, &kernel) == 0);
	CHECK(tane_disk_open(kernel, argv[1], NULL, &disk) == 0);
	CHECK(tane_mount(kernel, tane_disk_device(disk), NULL, &mount) == 0);
	a_thread_of_the_kernel_takes_requests();
	read_into_a_registered_buffer(0);
	read_into_a_registered_buffer(O_DIRECT);
	write_from_a_registered_buffer(0, "written");
	write_from_a_registered_buffer(O_DIRECT, "written-direct");
	ordinary_memory_cannot_be_registered();
	a_request_outside_of_its_buffer_is_efault();
	a_descriptor_becomes_a_file();
	CHECK(tane_unmount(mount) == 0);
	tane_disk_close(disk);
	tane_kernel_close(kernel);
	return 0;
}

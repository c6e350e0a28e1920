/* SPDX-License-Identifier: GPL-2.0-only */
/* Promises of tane_buffer_ and tane_map, on the ext4 image that is the argument. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <tane.h>
#include "check.h"

#define PAGE 4096

static struct tane_kernel *kernel;
static struct tane_mount *mount;

static void direct_io_goes_through_a_buffer(void)
{
	struct tane_buffer *buffer = NULL;
	struct tane_file *file;
	char ordinary[2 * PAGE];
	char *aligned = ordinary + PAGE - (uintptr_t)ordinary % PAGE;
	char *data;
	int i;

	CHECK(tane_buffer_alloc(kernel, 4 * PAGE, &buffer) == 0);
	data = tane_buffer_data(buffer);
	CHECK(data && (uintptr_t)data % PAGE == 0);
	for (i = 0; i < 4 * PAGE; i++)
		CHECK(data[i] == 0);
	memset(data, 'x', 4 * PAGE);
	CHECK(tane_open(mount, "direct", O_RDWR | O_CREAT | O_DIRECT, 0600,
			&file) == 0);
	CHECK(tane_pwrite(file, data, 4 * PAGE, 0) == 4 * PAGE);
	memset(data, 0, 4 * PAGE);
	CHECK(tane_pread(file, data, 4 * PAGE, 0) == 4 * PAGE);
	for (i = 0; i < 4 * PAGE; i++)
		CHECK(data[i] == 'x');
	CHECK(tane_pread(file, aligned, PAGE, 0) == -EFAULT);
	CHECK(tane_buffer_check(buffer) == 0);
	tane_close(file);
	tane_buffer_free(buffer);
}

static int64_t call(int64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
		    uint64_t e)
{
	return tane_syscall(kernel, nr, a, b, c, d, e, 0);
}

/* From a buffer into a pipe, and out of it into a file: its pages move. */
static void pages_of_a_buffer_are_spliced_into_a_file(void)
{
	struct tane_buffer *buffer = NULL;
	struct iovec part = { .iov_len = 2 * PAGE };
	struct tane_file *file;
	char back[2 * PAGE];
	char *data;
	int pipe[2], fd;

	CHECK(tane_buffer_alloc(kernel, 2 * PAGE, &buffer) == 0);
	data = tane_buffer_data(buffer);
	memset(data, 's', 2 * PAGE);
	part.iov_base = data;
	CHECK(call(SYS_pipe2, (uintptr_t)pipe, 0, 0, 0, 0) == 0);
	CHECK(call(SYS_vmsplice, pipe[1], (uintptr_t)&part, 1, 0, 0) == 2 * PAGE);
	CHECK(tane_open(mount, "spliced", O_RDWR | O_CREAT, 0600, &file) == 0);
	fd = tane_fd(file);
	CHECK(call(SYS_splice, pipe[0], 0, fd, 0, 2 * PAGE) == 2 * PAGE);
	CHECK(tane_pread(file, back, 2 * PAGE, 0) == 2 * PAGE);
	CHECK(!memcmp(back, data, 2 * PAGE));
	tane_close(file);
	CHECK(call(SYS_close, pipe[0], 0, 0, 0, 0) == 0);
	CHECK(call(SYS_close, pipe[1], 0, 0, 0, 0) == 0);
	tane_buffer_free(buffer);
}

static void what_cannot_be_had_is_refused(void)
{
	struct tane_buffer *buffer = NULL;
	struct tane_map *map = NULL;
	struct tane_file *file;

	CHECK(tane_buffer_alloc(kernel, 0, &buffer) == -EINVAL);
	CHECK(tane_buffer_alloc(kernel, (size_t)1 << 40, &buffer) == -ENOMEM);
	CHECK(strstr(tane_error_message(), "buffer"));
	CHECK(tane_buffer_alloc(NULL, 1, &buffer) == -EFAULT);
	CHECK(tane_buffer_alloc(kernel, 1, NULL) == -EFAULT);
	CHECK(!buffer && !tane_buffer_data(NULL) && !tane_map_data(NULL));
	CHECK(tane_buffer_check(NULL) == -EFAULT);
	CHECK(tane_open(mount, "refused", O_RDONLY | O_CREAT, 0600, &file) == 0);
	CHECK(tane_map(file, 0, 0, 0, &map) == -EINVAL);
	CHECK(tane_map(file, 0, 1, 8, &map) == -EINVAL);
	CHECK(tane_map(file, 0, 1, TANE_MAP_WRITE, &map) == -EACCES);
	CHECK(tane_map(file, 0, PAGE, TANE_MAP_POPULATE, &map) == -EFAULT);
	CHECK(tane_map(NULL, 0, 1, 0, &map) == -EFAULT);
	CHECK(tane_map(file, 0, 1, 0, NULL) == -EFAULT);
	CHECK(!map);
	CHECK(tane_map_flush(NULL, 0, 0) == -EFAULT);
	CHECK(tane_map_check(NULL) == -EFAULT);
	tane_close(file);
	tane_unmap(NULL);
	tane_buffer_free(NULL);
}

static void a_shared_mapping_is_the_file(void)
{
	struct tane_map *map, *private;
	struct tane_file *file;
	char byte, *data, *own;

	CHECK(tane_open(mount, "shared", O_RDWR | O_CREAT, 0600, &file) == 0);
	CHECK(tane_ftruncate(file, 4 * PAGE) == 0);
	CHECK(tane_map(file, 5, 3 * PAGE, TANE_MAP_WRITE, &map) == 0);
	CHECK(tane_map(file, 5, 3 * PAGE, TANE_MAP_WRITE | TANE_MAP_PRIVATE,
		       &private) == 0);
	data = tane_map_data(map);
	own = tane_map_data(private);
	data[PAGE] = 'a';
	CHECK(own[PAGE] == 'a');
	CHECK(tane_pread(file, &byte, 1, PAGE + 5) == 1 && byte == 'a');
	CHECK(tane_pwrite(file, "b", 1, PAGE + 6) == 1);
	CHECK(data[PAGE + 1] == 'b');
	own[PAGE] = 'c';
	CHECK(data[PAGE] == 'a');
	CHECK(tane_map_flush(map, PAGE, 2) == 0);
	CHECK(tane_map_flush(map, 3 * PAGE, 1) == -EINVAL);
	CHECK(tane_map_check(map) == 0);
	tane_close(file);
	CHECK(data[PAGE] == 'a' && own[PAGE] == 'c');
	tane_unmap(private);
	tane_unmap(map);
}

static void a_page_that_is_not_there_is_an_error(void)
{
	struct tane_file *file;
	struct tane_map *map;
	char *data;

	CHECK(tane_open(mount, "short", O_RDWR | O_CREAT, 0600, &file) == 0);
	CHECK(tane_pwrite(file, "a", 1, PAGE) == 1);
	CHECK(tane_map(file, 0, 2 * PAGE, 0, &map) == 0);
	data = tane_map_data(map);
	CHECK(data[PAGE] == 'a');
	CHECK(tane_ftruncate(file, 1) == 0);
	CHECK(data[0] == 0 && tane_map_check(map) == 0);
	CHECK(data[PAGE] == 0 && tane_map_check(map) == -EIO);
	CHECK(tane_map_flush(map, 0, 1) == -EIO);
	tane_unmap(map);
	tane_close(file);
}

static void memory_is_safe_after_a_halt(void)
{
	struct tane_kernel_options options = { .size = sizeof(options) };
	struct tane_mount_options tmpfs = {
		.size = sizeof(tmpfs),
		.type = "tmpfs",
	};
	struct tane_buffer *buffer;
	struct tane_kernel *other;
	struct tane_mount *place;
	struct tane_file *file;
	struct tane_map *map;
	char *data;

	options.memory = 64 << 20;
	CHECK(tane_kernel_boot(&options, &other) == 0);
	CHECK(tane_mount(other, "none", &tmpfs, &place) == 0);
	CHECK(tane_open(place, "f", O_RDWR | O_CREAT, 0600, &file) == 0);
	CHECK(tane_pwrite(file, "abc", 3, PAGE) == 3);
	CHECK(tane_map(file, 0, 2 * PAGE, 0, &map) == 0);
	CHECK(tane_buffer_alloc(other, PAGE, &buffer) == 0);
	data = tane_buffer_data(buffer);
	memset(data, 'x', PAGE);
	tane_close(file);
	tane_unmount(place);
	tane_kernel_halt(other);
	tane_kernel_close(other);
	CHECK(data[0] == 'x' && data[PAGE - 1] == 'x');
	CHECK(tane_buffer_check(buffer) == 0);
	CHECK(((char *)tane_map_data(map))[PAGE] == 0);
	CHECK(tane_map_check(map) == -ESHUTDOWN);
	tane_unmap(map);
	tane_buffer_free(buffer);
}

int main(int argc, char **argv)
{
	struct tane_disk *disk;

	CHECK(argc == 2);
	CHECK(tane_kernel_boot(NULL, &kernel) == 0);
	CHECK(tane_disk_open(kernel, argv[1], NULL, &disk) == 0);
	CHECK(tane_mount(kernel, tane_disk_device(disk), NULL, &mount) == 0);
	direct_io_goes_through_a_buffer();
	pages_of_a_buffer_are_spliced_into_a_file();
	what_cannot_be_had_is_refused();
	a_shared_mapping_is_the_file();
	a_page_that_is_not_there_is_an_error();
	memory_is_safe_after_a_halt();
	CHECK(tane_unmount(mount) == 0);
	tane_disk_close(disk);
	tane_kernel_close(kernel);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises of tane.h about checkpoints. The only argument is an image with an ext4, on
 * which the file "hello" says "from C\n".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <tane.h>
#include "check.h"

static const char *file;

struct opened {
	struct tane_kernel *kernel;
	struct tane_image *image;
	struct tane_mount *mount;
};

/* What is written stays in memory. */
static struct opened open_it(void)
{
	struct tane_image_options options = {
		.size = sizeof(options), .flags = TANE_IMAGE_WRITE,
		.overlay = ":memory:",
	};
	struct opened at;

	CHECK(!tane_kernel_boot(NULL, &at.kernel));
	CHECK(!tane_image_open(at.kernel, file, &options, &at.image));
	CHECK(!tane_image_mount(at.image, NULL, NULL, &at.mount));
	return at;
}

static void end(struct opened *at)
{
	CHECK(!tane_unmount(at->mount));
	tane_image_close(at->image);
	tane_kernel_close(at->kernel);
}

static int overwrite(struct opened *at, const char *text)
{
	struct tane_file *hello;
	int result = tane_open(at->mount, "hello", O_WRONLY, 0, &hello);

	if (result)
		return result;
	CHECK(tane_pwrite(hello, text, 6, 0) == 6);
	CHECK(!tane_fsync(hello));
	tane_close(hello);
	return tane_mkdir(at->mount, "new", 0755);
}

/* What is read next comes from the disk. */
static void drop_caches(struct tane_kernel *kernel)
{
	const char *name = "/proc/sys/vm/drop_caches";
	int64_t fd = tane_syscall(kernel, SYS_open, (uintptr_t)name, O_WRONLY,
				  0, 0, 0, 0);

	CHECK(fd >= 0);
	CHECK(tane_syscall(kernel, SYS_write, fd, (uintptr_t)"3", 1, 0, 0,
			   0) == 1);
	CHECK(!tane_syscall(kernel, SYS_close, fd, 0, 0, 0, 0, 0));
}

static int says(struct opened *at, const char *text)
{
	char buf[8] = "";
	struct tane_file *hello;

	CHECK(!tane_open(at->mount, "hello", O_RDONLY, 0, &hello));
	CHECK(tane_pread(hello, buf, 7, 0) == 7);
	tane_close(hello);
	return !strncmp(buf, text, 6);
}

static void a_kernel_goes_back_as_often_as_it_is_asked(void)
{
	struct opened at = open_it();
	struct tane_checkpoint *first = NULL, *second = NULL;

	CHECK(!tane_checkpoint(at.kernel, &first));
	CHECK(!overwrite(&at, "middle"));
	CHECK(!tane_checkpoint(at.kernel, &second));
	for (int i = 0; i < 3; i++) {
		CHECK(overwrite(&at, "ending") == -EEXIST);
		CHECK(says(&at, "ending"));
		CHECK(!tane_rollback(at.kernel, second));
		drop_caches(at.kernel);
		CHECK(says(&at, "middle"));
	}
	CHECK(!tane_rollback(at.kernel, first));
	drop_caches(at.kernel);
	CHECK(says(&at, "from C"));
	CHECK(!overwrite(&at, "again!"));
	CHECK(tane_rollback(at.kernel, second) == -ESTALE);
	CHECK(says(&at, "again!"));
	tane_checkpoint_close(second);
	tane_checkpoint_close(first);
	CHECK(says(&at, "again!"));
	end(&at);
}

static void handles_are_of_their_time(void)
{
	struct opened at = open_it();
	struct tane_checkpoint *checkpoint;
	struct tane_file *before, *since;
	char buf[8];

	CHECK(!tane_open(at.mount, "hello", O_RDONLY, 0, &before));
	CHECK(tane_read(before, buf, 5) == 5);
	CHECK(!tane_checkpoint(at.kernel, &checkpoint));
	CHECK(tane_read(before, buf, 2) == 2);
	CHECK(!tane_open(at.mount, "since", O_RDWR | O_CREAT, 0600, &since));
	CHECK(!tane_rollback(at.kernel, checkpoint));
	/* At the position that it had. */
	CHECK(tane_read(before, buf, 8) == 2 && !memcmp(buf, "C\n", 2));
	CHECK(tane_pwrite(since, "x", 1, 0) == -EBADF);
	tane_close(since);
	tane_close(before);
	/* A handle keeps alive what it belongs to. */
	end(&at);
	tane_checkpoint_close(checkpoint);
}

static int nothing(void *arg, void *buf, size_t len, uint64_t offset)
{
	(void)arg;
	(void)offset;
	memset(buf, 0, len);
	return 0;
}

static int forget(void *arg, const void *buf, size_t len, uint64_t offset)
{
	(void)arg;
	(void)buf;
	(void)len;
	(void)offset;
	return 0;
}

static void what_cannot_go_back_is_refused_with_its_reason(void)
{
	struct tane_block_ops ops = {
		.size = sizeof(ops), .capacity = 1 << 20, .read = nothing,
		.write = forget,
	};
	struct tane_kernel *jailed, *other;
	struct tane_checkpoint *checkpoint = NULL, *none = NULL;
	struct tane_image *image;
	struct tane_disk *disk;
	struct opened at = open_it();

	CHECK(tane_checkpoint(NULL, &none) == -EFAULT);
	CHECK(tane_checkpoint(at.kernel, NULL) == -EFAULT);
	CHECK(tane_rollback(at.kernel, NULL) == -EFAULT);
	tane_checkpoint_close(NULL);

	CHECK(!tane_checkpoint(at.kernel, &checkpoint));
	CHECK(!tane_kernel_boot(NULL, &other));
	CHECK(tane_rollback(other, checkpoint) == -EINVAL);
	CHECK(strstr(tane_error_message(), "of another kernel"));

	CHECK(!tane_disk_ram(at.kernel, 1 << 20, NULL, &disk));
	CHECK(tane_rollback(at.kernel, checkpoint) == -EBUSY);
	CHECK(strstr(tane_error_message(), "was added since"));
	tane_disk_close(disk);
	CHECK(!tane_rollback(at.kernel, checkpoint));

	CHECK(!tane_disk_add(other, &ops, NULL, &disk));
	CHECK(tane_checkpoint(other, &none) == -ENOTSUP);
	CHECK(strstr(tane_error_message(), "slot 0"));
	tane_disk_close(disk);
	tane_kernel_halt(other);
	CHECK(tane_checkpoint(other, &none) == -ESHUTDOWN);
	tane_kernel_close(other);

	CHECK(!tane_image_open(NULL, file, NULL, &image));
	CHECK(!tane_image_kernel(image, &jailed));
	CHECK(tane_checkpoint(jailed, &none) == -ENOTSUP);
	CHECK(strstr(tane_error_message(), "a process of its own"));
	CHECK(tane_rollback(jailed, checkpoint) == -ENOTSUP);
	tane_kernel_close(jailed);
	tane_image_close(image);

	CHECK(!none);
	tane_checkpoint_close(checkpoint);
	end(&at);
}

static int stop;

static void read_back(struct opened *at)
{
	struct tane_file *hello;
	char buf[8];
	int result = tane_open(at->mount, "hello", O_RDONLY, 0, &hello);

	CHECK(!result);
	/* It may be of a moment that was undone. */
	result = tane_pread(hello, buf, 7, 0);
	CHECK(result == 7 || result == -EBADF);
	tane_close(hello);
}

static void *look(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_SEQ_CST))
		read_back(arg);
	return NULL;
}

/* Calls of other threads are over before, or begin after. */
static void other_threads_call_meanwhile(void)
{
	struct opened at = open_it();
	struct tane_checkpoint *checkpoint;
	struct tane_stat stat = { .size = sizeof(stat) };
	pthread_t thread;

	CHECK(!tane_checkpoint(at.kernel, &checkpoint));
	CHECK(!pthread_create(&thread, NULL, look, &at));
	for (int i = 0; i < 50; i++) {
		CHECK(!tane_mkdir(at.mount, "mine", 0755));
		CHECK(!tane_rollback(at.kernel, checkpoint));
		CHECK(tane_stat(at.mount, "mine", 0, &stat) == -ENOENT);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	CHECK(!pthread_join(thread, NULL));
	tane_checkpoint_close(checkpoint);
	/* What was opened in that very moment may be open still. */
	tane_kernel_halt(at.kernel);
	tane_unmount(at.mount);
	tane_image_close(at.image);
	tane_kernel_close(at.kernel);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	file = argv[1];
	a_kernel_goes_back_as_often_as_it_is_asked();
	handles_are_of_their_time();
	what_cannot_go_back_is_refused_with_its_reason();
	other_threads_call_meanwhile();
	return 0;
}

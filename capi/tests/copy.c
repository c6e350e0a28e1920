/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises of tane.h about copies. Arguments: "kernel" or "worker", an image
 * with an ext4, a tree of the host, and a directory that the copies go into. The
 * losses of the copy out are printed, a line each.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <tane.h>
#include "check.h"

static const char *image_file;
static struct tane_kernel *kernel;
static struct tane_image *image;

struct told {
	uint64_t files, bytes, total_files, total_bytes;
	int calls, losses, failures;
	int stop, print;
	uint64_t stop_at;
};

static int progress(void *arg, uint64_t files, uint64_t bytes,
		    uint64_t total_files, uint64_t total_bytes)
{
	struct told *told = arg;

	CHECK(files >= told->files && bytes >= told->bytes);
	told->files = files;
	told->bytes = bytes;
	told->total_files = total_files;
	told->total_bytes = total_bytes;
	told->calls++;
	return told->stop || (told->stop_at && bytes >= told->stop_at);
}

static void loss(void *arg, const char *path, const char *what, int error)
{
	struct told *told = arg;

	CHECK(error > 0);
	told->losses++;
	if (told->print)
		printf("%s: %s\n", path, what);
}

static void failure(void *arg, const char *path, const char *why, int error)
{
	struct told *told = arg;

	CHECK(error > 0 && strlen(why) > 0 && path);
	told->failures++;
}

static struct tane_copy_options options(struct told *told)
{
	struct tane_copy_options options = {
		.size = sizeof(options),
		.progress = progress,
		.loss = loss,
		.failure = failure,
		.arg = told,
	};

	memset(told, 0, sizeof(*told));
	return options;
}

static struct tane_mount *mount_it(int in_worker)
{
	struct tane_image_options how = {
		.size = sizeof(how),
		.flags = TANE_IMAGE_WRITE,
	};
	struct tane_mount *mount;

	if (!in_worker)
		CHECK(!tane_kernel_boot(NULL, &kernel));
	CHECK(!tane_image_open(kernel, image_file, &how, &image));
	CHECK(!tane_image_mount(image, NULL, NULL, &mount));
	return mount;
}

static void in_and_out_and_across(struct tane_mount *mount, const char *tree,
				  const char *to)
{
	struct tane_copied copied = { .size = sizeof(copied) };
	struct tane_copy_options how;
	struct told told;
	char path[4096];

	how = options(&told);
	CHECK(!tane_copy_in(mount, tree, "/in", &how, &copied));
	CHECK(!told.losses && !told.failures && !copied.losses);
	CHECK(copied.files == 5 && copied.links == 1);
	/* Of a file with two names there is one. */
	CHECK(told.calls > 1 && told.files + 1 == told.total_files);
	CHECK(told.bytes == copied.bytes && told.bytes > 1 << 20);
	CHECK(!tane_mknod(mount, "/in/null", S_IFCHR | 0666, makedev(1, 3)));

	how = options(&told);
	told.print = 1;
	snprintf(path, sizeof(path), "%s/out", to);
	CHECK(!tane_copy_out(mount, "/in", path, &how, &copied));
	CHECK(told.losses >= 1 && (uint64_t)told.losses == copied.losses);

	CHECK(!tane_copy_across(mount, "/in", mount, "/across", NULL, NULL));
	snprintf(path, sizeof(path), "%s/across", to);
	CHECK(!tane_copy_out(mount, "/across", path, NULL, NULL));
}

static void what_ends_a_copy(struct tane_mount *mount, const char *to)
{
	struct tane_copied copied = { .size = sizeof(copied) };
	struct tane_copy_options how;
	struct told told;
	char path[4096];

	snprintf(path, sizeof(path), "%s/strict", to);
	how = options(&told);
	how.flags = TANE_COPY_STRICT;
	CHECK(tane_copy_out(mount, "/in/null", path, &how, NULL) == -EPERM);
	CHECK(strstr(tane_error_message(), "device node"));
	CHECK(told.losses == 1);

	snprintf(path, sizeof(path), "%s/stopped", to);
	how = options(&told);
	told.stop = 1;
	CHECK(tane_copy_out(mount, "/in", path, &how, NULL) == -ECANCELED);

	/* Also when all is there already. */
	snprintf(path, sizeof(path), "%s/late", to);
	how = options(&told);
	told.stop_at = 12; /* its length */
	CHECK(tane_copy_out(mount, "/in/plain", path, &how, &copied) ==
	      -ECANCELED);
	CHECK(copied.files == 1 && !told.failures);
	CHECK(!strcmp(tane_error_message(), "the copy was stopped"));

	CHECK(tane_copy_out(mount, "/none", path, NULL, NULL) == -ENOENT);
	snprintf(path, sizeof(path), "%s/none/there", to);
	CHECK(tane_copy_out(mount, "/in", path, NULL, NULL) == -ENOENT);
	CHECK(tane_copy_out(mount, "/in", "/", NULL, NULL) == -EINVAL);
	CHECK(tane_copy_out(mount, NULL, path, NULL, NULL) == -EFAULT);

	/* One that is in the way costs itself, and is told. */
	CHECK(!tane_mkdir(mount, "/clash", 0755));
	CHECK(!tane_mkdir(mount, "/clash/plain", 0755));
	how = options(&told);
	snprintf(path, sizeof(path), "%s/out", to);
	CHECK(tane_copy_in(mount, path, "/clash", &how, &copied) < 0);
	CHECK(told.failures && copied.files);
	CHECK((uint64_t)told.failures == copied.failures);
}

int main(int argc, char **argv)
{
	struct tane_mount *mount;

	CHECK(argc == 5);
	image_file = argv[2];
	mount = mount_it(!strcmp(argv[1], "worker"));
	in_and_out_and_across(mount, argv[3], argv[4]);
	what_ends_a_copy(mount, argv[4]);
	CHECK(!tane_unmount(mount));
	tane_image_close(image);
	if (kernel)
		tane_kernel_close(kernel);
	return 0;
}

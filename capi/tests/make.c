/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises of tane.h about making images. Arguments: a directory, an image to be
 * made of it, a kind of file system. What was made is printed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <tane.h>
#include "check.h"

struct told {
	uint64_t files, bytes, total_files, total_bytes;
	int calls, stop;
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
	return told->stop;
}

static int says(const char *words)
{
	return strstr(tane_error_message(), words) != NULL;
}

static void refusals(const char *source, const char *image, const char *fs)
{
	struct told told = { .stop = 1 };
	struct tane_make_options options = {
		.size = sizeof(options),
		.fs = fs,
		.progress = progress,
		.arg = &told,
	};
	struct tane_made made = { .size = 1 };
	struct stat stat_;

	CHECK(tane_make_image(source, image, &options, NULL) == -ECANCELED);
	/* Also before it is known how much there is to do. */
	CHECK(told.calls > 0 && told.total_files == 0);
	told.stop = 0;
	options.fs = "zfs";
	CHECK(tane_make_image(source, image, &options, NULL) == -EINVAL);
	CHECK(says("zfs is not supported"));
	options.fs = fs;
	options.owner = "nobody";
	CHECK(tane_make_image(source, image, &options, NULL) == -EINVAL);
	options.owner = NULL;
	options.partition_table = "sun";
	CHECK(tane_make_image(source, image, &options, NULL) == -EINVAL);
	CHECK(says("sun"));
	options.partition_table = NULL;
	/* Its program ends before it has read anything, and this one goes on. */
	options.fs = "squashfs";
	options.compression = "pressing";
	CHECK(tane_make_image(source, image, &options, NULL) < 0);
	CHECK(says("mksquashfs"));
	options.fs = fs;
	options.compression = NULL;
	/* It is told from the beginning by each. */
	told.files = told.bytes = 0;
	CHECK(tane_make_image("/none", image, &options, NULL) == -ENOENT);
	CHECK(says("/none: "));
	CHECK(tane_make_image("", image, &options, NULL) == -ENOENT);
	CHECK(says("source: "));
	CHECK(tane_make_image(NULL, image, &options, NULL) == -EFAULT);
	CHECK(tane_make_image(source, image, &options, &made) == -EINVAL);
	CHECK(stat(image, &stat_) == -1 && errno == ENOENT);
}

int main(int argc, char **argv)
{
	struct told told = { 0 };
	struct tane_make_options options = {
		.size = sizeof(options),
		.flags = TANE_MAKE_EPOCH | TANE_MAKE_STRICT,
		.epoch = 1700000000,
		.owner = "12:34",
		.label = "from C",
		.progress = progress,
		.arg = &told,
	};
	struct tane_made made = { .size = sizeof(made) };

	CHECK(argc == 4);
	refusals(argv[1], argv[2], argv[3]);
	options.fs = argv[3];
	CHECK(!tane_make_image(argv[1], argv[2], &options, &made));
	CHECK(told.calls > 0 && told.total_files == made.files);
	CHECK(made.losses == 0 && made.failures == 0);
	CHECK(made.epoch == 1700000000 && strlen(made.uuid) == 36);
	CHECK(tane_make_image(argv[1], argv[2], &options, NULL) == -EEXIST);
	printf("%" PRIu64 " %s\n", made.image_size, made.uuid);
	return 0;
}

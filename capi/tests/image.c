/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises of tane.h about images and addresses. The only argument is an image
 * with an ext4 called "test", on which the file "hello" says "from C\n".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tane.h>
#include "check.h"

static struct tane_kernel *kernel;
static const char *file;

static struct tane_mount *mount_it(struct tane_image *image,
				   const char *selector)
{
	struct tane_mount *mount;

	CHECK(!tane_image_mount(image, selector, NULL, &mount));
	return mount;
}

static void a_mount_keeps_its_image_open(void)
{
	const char *paths[] = { "/hello", "none", "lost+found", "hello" };
	struct tane_image *image;
	struct tane_mount *mount;
	int64_t lengths[4];
	char text[64];

	CHECK(!tane_image_open(kernel, file, NULL, &image));
	mount = mount_it(image, NULL);
	tane_image_close(image);
	CHECK(tane_mkdir(mount, "/new", 0755) == -EROFS);
	CHECK(tane_read_files(mount, paths, 4, text, sizeof(text), lengths) == 4);
	CHECK(lengths[0] == 7 && lengths[3] == 7);
	CHECK(lengths[1] == -ENOENT && lengths[2] == -EISDIR);
	CHECK(!memcmp(text, "from C\nfrom C\n", 14));
	/* The second one does not fit, nor can it be known to. */
	CHECK(tane_read_files(mount, paths, 4, text, 14, lengths) == 3);
	CHECK(tane_read_files(mount, paths, 4, text, 7, lengths) == 0);
	CHECK(tane_read_files(mount, NULL, 0, NULL, 0, NULL) == 0);
	CHECK(tane_read_files(mount, NULL, 1, text, 1, lengths) == -EFAULT);
	CHECK(!tane_unmount(mount));
}

static void a_selector_means_what_it_means_to_the_command(void)
{
	struct tane_image *image;
	struct tane_mount *mount = NULL;

	CHECK(!tane_image_open(kernel, file, NULL, &image));
	CHECK(!tane_unmount(mount_it(image, "label=test")));
	CHECK(tane_image_mount(image, "2", NULL, &mount) == -ENXIO);
	CHECK(strstr(tane_error_message(), "no such file system"));
	CHECK(tane_image_mount(image, "two", NULL, &mount) == -EINVAL);
	CHECK(strstr(tane_error_message(), "not a selector"));
	CHECK(!mount);
	tane_image_close(image);
}

static void volumes_are_described(void)
{
	struct tane_volume volume = { .size = sizeof(volume) };
	struct tane_image *image;

	CHECK(!tane_image_open(kernel, file, NULL, &image));
	CHECK(tane_image_volumes(image, NULL, 0) == 1);
	CHECK(tane_image_volumes(image, &volume, 1) == 1);
	CHECK(volume.kind == TANE_VOLUME_DISK);
	CHECK(volume.flags == TANE_VOLUME_MOUNTABLE);
	CHECK(!strcmp(volume.type, "ext4") && !strcmp(volume.label, "test"));
	CHECK(volume.length == 32 << 20 && !volume.selector[0]);
	tane_image_close(image);
}

static void writing_takes_the_flag_and_locks_the_image(void)
{
	struct tane_image_options options = {
		.size = sizeof(options), .flags = TANE_IMAGE_WRITE
	};
	struct tane_image *image, *second = NULL;
	struct tane_mount *mount;

	CHECK(!tane_image_open(kernel, file, &options, &image));
	CHECK(tane_image_open(kernel, file, &options, &second) < 0);
	CHECK(strstr(tane_error_message(), "is in use by this program itself"));
	mount = mount_it(image, NULL);
	CHECK(!tane_mkdir(mount, "/new", 0755));
	CHECK(!tane_unmount(mount));
	tane_image_close(image);
	CHECK(!second);
	options.format = "nonsense";
	CHECK(tane_image_open(kernel, file, &options, &second) == -EINVAL);
	CHECK(tane_image_open(kernel, "/none", NULL, &second) == -ENOENT);
}

static void what_is_written_to_memory_is_forgotten(void)
{
	struct tane_image_options options = {
		.size = sizeof(options), .flags = TANE_IMAGE_WRITE,
		.overlay = ":memory:",
	};
	struct tane_image *image;
	struct tane_mount *mount;

	for (int i = 0; i < 2; i++) {
		CHECK(!tane_image_open(kernel, file, &options, &image));
		mount = mount_it(image, NULL);
		CHECK(!tane_mkdir(mount, "/forgotten", 0755));
		CHECK(!tane_unmount(mount));
		tane_image_close(image);
	}
}

static int parse(const char *format, uint32_t flags, struct tane_address *at)
{
	char text[4096];

	at->size = sizeof(*at);
	snprintf(text, sizeof(text), format, file);
	return tane_address(text, flags, at);
}

static void addresses_are_taken_apart(void)
{
	struct tane_address at;
	size_t len = strlen(file);

	CHECK(parse("%s:/a:/b", 0, &at) == 1);
	CHECK(at.image_len == len && !at.selector_len && at.path == len + 1);
	CHECK(parse("%s@2,subvol=x:/a", 0, &at) == 1);
	CHECK(at.selector == len + 1 && at.selector_len == 10);
	CHECK(at.path == len + 12);
	CHECK(parse("%s@two:/a", 0, &at) == -EINVAL);
	CHECK(parse("%s", 0, &at) == 0);
	CHECK(parse("%s", TANE_ADDRESS_IMAGES_ONLY, &at) == 1);
	CHECK(at.image_len == len && at.path == len);
	CHECK(parse("%s@2", TANE_ADDRESS_IMAGES_ONLY, &at) == 1);
	CHECK(at.selector == len + 1 && at.selector_len == 1);
	CHECK(at.path == len + 2);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	file = argv[1];
	CHECK(!tane_kernel_boot(NULL, &kernel));
	a_mount_keeps_its_image_open();
	a_selector_means_what_it_means_to_the_command();
	volumes_are_described();
	writing_takes_the_flag_and_locks_the_image();
	what_is_written_to_memory_is_forgotten();
	addresses_are_taken_apart();
	tane_kernel_close(kernel);
	return 0;
}

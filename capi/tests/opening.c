/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Opens an image in a worker, and reads or writes one file of it:
 *
 *   opening IMAGE [OPTION=VALUE]... -- read NAME
 *   opening IMAGE [OPTION=VALUE]... -- write NAME TEXT
 *
 * The exit code is the errno of what failed.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tane.h>

#define MOST 8

static int64_t check(int64_t result)
{
	if (result >= 0)
		return result;
	fprintf(stderr, "%s\n", tane_error_message());
	exit((int)-result);
}

static void add(const char **list, const char *value)
{
	int n = 0;

	while (list[n])
		n++;
	if (n < MOST)
		list[n] = value;
}

int main(int argc, char **argv)
{
	static const char *trust[MOST + 1], *with[MOST + 1], *lower[MOST + 1];
	static struct tane_secret secrets[MOST];
	struct tane_image_options options = {
		.size = sizeof(options), .trust = trust, .with = with,
		.lower = lower, .secrets = secrets,
	};
	struct tane_image *image;
	struct tane_mount *mount;
	struct tane_file *file;
	char text[4096];
	int at;

	for (at = 2; at < argc && strcmp(argv[at], "--"); at++) {
		char *value = strchr(argv[at], '=');

		if (!value)
			return 255;
		*value++ = 0;
		if (!strcmp(argv[at], "write"))
			options.flags |= TANE_IMAGE_WRITE;
		else if (!strcmp(argv[at], "format"))
			options.format = value;
		else if (!strcmp(argv[at], "overlay"))
			options.overlay = value;
		else if (!strcmp(argv[at], "verity"))
			options.verity = value;
		else if (!strcmp(argv[at], "sector_size"))
			options.sector_size = strtoul(value, NULL, 10);
		else if (!strcmp(argv[at], "trust"))
			add(trust, value);
		else if (!strcmp(argv[at], "with"))
			add(with, value);
		else if (!strcmp(argv[at], "lower"))
			add(lower, value);
		else if (!strcmp(argv[at], "secrets") && options.secret_count < MOST)
			secrets[options.secret_count++] =
				(struct tane_secret){ value, strlen(value) };
		else
			return 255;
	}
	if (at + 2 >= argc)
		return 255;
	check(tane_image_open(NULL, argv[1], &options, &image));
	check(tane_image_mount(image, NULL, NULL, &mount));
	if (!strcmp(argv[at + 1], "read")) {
		check(tane_open(mount, argv[at + 2], O_RDONLY, 0, &file));
		fwrite(text, 1, check(tane_read(file, text, sizeof(text))),
		       stdout);
	} else {
		const char *new = argv[at + 3];

		check(tane_open(mount, argv[at + 2], O_CREAT | O_WRONLY, 0644,
				&file));
		check(tane_write(file, new, strlen(new)));
	}
	tane_close(file);
	check(tane_unmount(mount));
	tane_image_close(image);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Print a file of a disk image.
 *
 *   cc -o cat cat.c -ltane && ./cat disk.img /etc/hostname
 *   ./cat disk.img /etc/hostname 2     from its second partition
 */
#include <stdio.h>
#include <stdlib.h>
#include <tane.h>

static void need(int64_t result)
{
	if (result >= 0)
		return;
	fprintf(stderr, "cat: %s\n", tane_error_message());
	exit(1);
}

/* The device node of a partition. */
static const char *find(struct tane_disk *disk, unsigned int number)
{
	static struct tane_partition partitions[128];
	int i, count;

	for (i = 0; i < 128; i++)
		partitions[i].size = sizeof(partitions[i]);
	count = tane_disk_partitions(disk, partitions, 128);
	need(count);
	for (i = 0; i < count && i < 128; i++)
		if (partitions[i].number == number)
			return partitions[i].device;
	fprintf(stderr, "cat: there is no partition %u\n", number);
	exit(1);
}

int main(int argc, char **argv)
{
	struct tane_disk_options snapshot = {
		.size = sizeof(snapshot),
		.flags = TANE_DISK_SNAPSHOT,
	};
	struct tane_kernel *kernel;
	struct tane_disk *disk;
	struct tane_mount *mount;
	struct tane_file *file;
	const char *device;
	char buffer[65536];
	int64_t n;

	if (argc < 3) {
		fprintf(stderr, "usage: cat IMAGE PATH [PARTITION]\n");
		return 2;
	}
	need(tane_kernel_boot(NULL, &kernel));
	/* A snapshot: mounting may replay a journal, but not onto the image. */
	need(tane_disk_open(kernel, argv[1], &snapshot, &disk));
	device = tane_disk_device(disk);
	if (argc > 3)
		device = find(disk, atoi(argv[3]));
	need(tane_mount(kernel, device, NULL, &mount));
	need(tane_open(mount, argv[2], 0, 0, &file));
	while ((n = tane_read(file, buffer, sizeof(buffer))) > 0)
		fwrite(buffer, 1, n, stdout);
	need(n);
	tane_close(file);
	need(tane_unmount(mount));
	tane_disk_close(disk);
	tane_kernel_close(kernel);
	return 0;
}

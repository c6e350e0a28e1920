/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * List a directory of a disk whose bytes this program provides: any storage
 * that can be read can be mounted. Here it is a stdio stream.
 *
 *   cc -o list list.c -ltane -lpthread && ./list disk.img /
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tane.h>

struct storage {
	FILE *stream;
	pthread_mutex_t lock;	/* the stream has one position for all threads */
};

static int storage_read(void *arg, void *buf, size_t len, uint64_t offset)
{
	struct storage *storage = arg;
	int error = 0;

	pthread_mutex_lock(&storage->lock);
	if (fseeko(storage->stream, offset, SEEK_SET) ||
	    fread(buf, 1, len, storage->stream) != len)
		error = -EIO;
	pthread_mutex_unlock(&storage->lock);
	return error;
}

static void storage_release(void *arg)
{
	struct storage *storage = arg;

	fclose(storage->stream);
}

static void need(int64_t result)
{
	if (result >= 0)
		return;
	fprintf(stderr, "list: %s\n", tane_error_message());
	exit(1);
}

int main(int argc, char **argv)
{
	struct storage storage = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct tane_block_ops ops = {
		.size = sizeof(ops),
		.read = storage_read,
		.release = storage_release,
		.arg = &storage,
	};
	struct tane_mount_options options = {
		.size = sizeof(options),
		.flags = TANE_MOUNT_READ_ONLY,
	};
	struct tane_dirent entry = { .size = sizeof(entry) };
	struct tane_kernel *kernel;
	struct tane_disk *disk;
	struct tane_mount *mount;
	struct tane_dir *dir;
	int more;

	if (argc < 3) {
		fprintf(stderr, "usage: list IMAGE DIRECTORY\n");
		return 2;
	}
	storage.stream = fopen(argv[1], "rb");
	if (!storage.stream || fseeko(storage.stream, 0, SEEK_END)) {
		perror(argv[1]);
		return 1;
	}
	ops.capacity = ftello(storage.stream) & ~511ULL;

	need(tane_kernel_boot(NULL, &kernel));
	need(tane_disk_add(kernel, &ops, NULL, &disk));
	need(tane_mount(kernel, tane_disk_device(disk), &options, &mount));
	need(tane_opendir(mount, argv[2], &dir));
	while ((more = tane_readdir(dir, &entry)) > 0)
		printf("%s\n", entry.name);
	need(more);
	tane_closedir(dir);
	need(tane_unmount(mount));
	tane_disk_close(disk);
	tane_kernel_close(kernel);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* Promises of tane.h, on the ext4 image that is the only argument. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <tane.h>
#include "check.h"

static struct tane_kernel *kernel;
static struct tane_mount *mount;

static void the_version_is_that_of_the_header(void)
{
	CHECK(tane_version() ==
	      (TANE_VERSION_MAJOR << 16 | TANE_VERSION_MINOR));
}

static void system_calls_go_to_the_kernel(void)
{
	CHECK(tane_syscall(kernel, SYS_getpid, 0, 0, 0, 0, 0, 0) == 1);
	CHECK(tane_syscall(kernel, SYS_close, 9999, 0, 0, 0, 0, 0) == -EBADF);
	CHECK(tane_syscall(kernel, SYS_uname, 1, 0, 0, 0, 0, 0) == -EFAULT);
}

static void a_kernel_has_as_many_cpus_as_asked_for(void)
{
	struct tane_kernel_options options = {
		.size = sizeof(options),
		.cpus = 2,
	};
	struct tane_kernel *two;
	unsigned long cpus = 0;

	CHECK(tane_syscall(kernel, SYS_sched_getaffinity, 0, sizeof(cpus),
			   (long)&cpus, 0, 0, 0) > 0);
	CHECK(cpus == 1);
	CHECK(tane_kernel_boot(&options, &two) == 0);
	CHECK(tane_syscall(two, SYS_sched_getaffinity, 0, sizeof(cpus),
			   (long)&cpus, 0, 0, 0) > 0);
	CHECK(cpus == 3);
	tane_kernel_close(two);
}

static void errors_are_negative_and_have_a_message(void)
{
	struct tane_file *file = NULL;

	CHECK(tane_open(mount, "/none", O_RDONLY, 0, &file) == -ENOENT);
	CHECK(!file);
	CHECK(strstr(tane_error_message(), "open /none"));
}

static void a_null_that_is_needed_is_efault(void)
{
	struct tane_stat st = { .size = sizeof(st) };

	CHECK(tane_stat(NULL, "/", 0, &st) == -EFAULT);
	CHECK(tane_stat(mount, NULL, 0, &st) == -EFAULT);
	CHECK(tane_stat(mount, "/", 0, NULL) == -EFAULT);
	CHECK(tane_open(mount, "/", 0, 0, NULL) == -EFAULT);
	CHECK(tane_read(NULL, NULL, 1) == -EFAULT);
	tane_close(NULL);
	tane_closedir(NULL);
	tane_disk_close(NULL);
	tane_kernel_close(NULL);
	CHECK(tane_unmount(NULL) == 0);
}

static void an_older_and_an_unknown_structure(void)
{
	struct tane_stat st;

	memset(&st, 0x5a, sizeof(st));
	st.size = offsetof(struct tane_stat, mode);
	CHECK(tane_stat(mount, "/", 0, &st) == 0);
	CHECK(st.ino == 2 && st.mode == 0x5a5a5a5a);
	CHECK(st.size == offsetof(struct tane_stat, mode));
	st.size = sizeof(st) + 8;
	CHECK(tane_stat(mount, "/", 0, &st) == -EINVAL);
	st.size = 0;
	CHECK(tane_stat(mount, "/", 0, &st) == -EINVAL);
}

static void files_are_written_and_read(void)
{
	struct tane_stat st = { .size = sizeof(st) };
	struct tane_file *file;
	char buf[16] = "";

	CHECK(tane_open(mount, "f", O_RDWR | O_CREAT | O_EXCL, 0666, &file) == 0);
	CHECK(tane_fd(file) >= 0);
	CHECK(tane_write(file, "hello", 5) == 5);
	CHECK(tane_pwrite(file, "J", 1, 0) == 1);
	CHECK(tane_lseek(file, 1, SEEK_SET) == 1);
	CHECK(tane_read(file, buf, sizeof(buf)) == 4);
	CHECK(!strcmp(buf, "ello"));
	CHECK(tane_read(file, buf, sizeof(buf)) == 0);
	CHECK(tane_pread(file, buf, 1, 0) == 1 && buf[0] == 'J');
	CHECK(tane_pread(file, (void *)8, 1, 0) == -EFAULT);
	CHECK(tane_ftruncate(file, 1 << 20) == 0);
	CHECK(tane_lseek(file, 0, SEEK_HOLE) > 0);
	CHECK(tane_fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 4096) == 0);
	CHECK(tane_fsync(file) == 0);
	CHECK(tane_fdatasync(file) == 0);
	CHECK(tane_fstat(file, &st) == 0);
	CHECK(st.length == 1 << 20 && S_ISREG(st.mode));
	CHECK((st.mode & 07777) == 0666);
	tane_close(file);
	CHECK(tane_open(mount, "f", O_RDWR | O_CREAT | O_EXCL, 0, &file) ==
	      -EEXIST);
	CHECK(tane_truncate(mount, "f", 3) == 0);
	CHECK(tane_stat(mount, "f", 0, &st) == 0 && st.length == 3);
}

static void entries_are_made_changed_and_removed(void)
{
	struct tane_timestamp past = { .seconds = -1, .nanoseconds = 5 };
	struct tane_timestamp keep = { .nanoseconds = TANE_TIME_KEEP };
	struct tane_stat st = { .size = sizeof(st) };
	char buf[8];

	CHECK(tane_mkdir(mount, "d", 0700) == 0);
	CHECK(tane_mkdir(mount, "d", 0700) == -EEXIST);
	CHECK(tane_symlink(mount, "../f", "d/l") == 0);
	CHECK(tane_readlink(mount, "d/l", buf, sizeof(buf)) == 4);
	CHECK(!strcmp(buf, "../f"));
	CHECK(tane_readlink(mount, "d/l", buf, 3) == 4 && !strcmp(buf, ".."));
	CHECK(tane_chmod(mount, "d/l", 04711) == 0);
	CHECK(tane_chown(mount, "d/l", 5, -1, TANE_NOFOLLOW) == 0);
	CHECK(tane_chown(mount, "d/l", 6, 7, 0) == 0);
	CHECK(tane_utimens(mount, "d/l", &keep, &past, TANE_NOFOLLOW) == 0);
	CHECK(tane_stat(mount, "d/l", TANE_NOFOLLOW, &st) == 0);
	CHECK(S_ISLNK(st.mode) && st.uid == 5 && st.gid == 0);
	CHECK(st.mtime.seconds == -1 && st.mtime.nanoseconds == 5);
	CHECK(st.atime.seconds > 1600000000);
	CHECK(tane_stat(mount, "d/l", 0, &st) == 0);
	CHECK(S_ISREG(st.mode) && st.uid == 6 && st.gid == 7);
	CHECK(tane_link(mount, "f", "d/f") == 0);
	CHECK(tane_stat(mount, "f", 0, &st) == 0 && st.nlink == 2);
	CHECK(tane_mknod(mount, "d/n", S_IFCHR | 0600, 0x103) == 0);
	CHECK(tane_stat(mount, "d/n", 0, &st) == 0 && st.rdev == 0x103);
	CHECK(tane_rename(mount, "d/f", "d/n", RENAME_NOREPLACE) == -EEXIST);
	CHECK(tane_rename(mount, "d/f", "d/n", 0) == 0);
	CHECK(tane_rmdir(mount, "d") == -ENOTEMPTY);
	CHECK(tane_unlink(mount, "d/n") == 0);
	CHECK(tane_remove_all(mount, "d") == 0);
	CHECK(tane_stat(mount, "d", 0, &st) == -ENOENT);
	CHECK(tane_stat(mount, "f", 0, &st) == 0);
}

static void attributes(void)
{
	char buf[64];

	CHECK(tane_symlink(mount, "f", "l") == 0);
	CHECK(tane_setxattr(mount, "l", "user.x", "12\0", 3, 0, 0) == 0);
	CHECK(tane_setxattr(mount, "f", "user.x", "", 0, 1, 0) == -EEXIST);
	CHECK(tane_getxattr(mount, "f", "user.x", NULL, 0, 0) == 3);
	CHECK(tane_getxattr(mount, "f", "user.x", buf, 2, 0) == -ERANGE);
	CHECK(tane_getxattr(mount, "f", "user.x", buf, 3, 0) == 3);
	CHECK(!memcmp(buf, "12\0", 3));
	CHECK(tane_listxattr(mount, "f", buf, sizeof(buf), 0) == 7);
	CHECK(!memcmp(buf, "user.x", 7));
	CHECK(tane_setxattr(mount, "l", "trusted.y", "z", 1, 0,
			    TANE_NOFOLLOW) == 0);
	CHECK(tane_getxattr(mount, "l", "trusted.y", buf, 1, 0) == -ENODATA);
	CHECK(tane_getxattr(mount, "l", "trusted.y", buf, 1,
			    TANE_NOFOLLOW) == 1);
	CHECK(tane_removexattr(mount, "f", "user.x", 0) == 0);
	CHECK(tane_getxattr(mount, "f", "user.x", buf, 3, 0) == -ENODATA);
}

static void flags_are_set_and_seen(void)
{
	const uint32_t no_dump = 0x40; /* FS_NODUMP_FL */
	struct tane_file *file;
	struct tane_shared_part part;
	uint32_t flags = ~0u, project = ~0u;

	CHECK(tane_get_flags(NULL, &flags, &project) == -EFAULT);
	CHECK(tane_open(mount, "flags", O_RDWR | O_CREAT, 0666, &file) == 0);
	CHECK(tane_get_flags(file, &flags, &project) == 0);
	CHECK(!(flags & no_dump) && project == 0);
	CHECK(tane_set_flags(file, flags | no_dump) == 0);
	CHECK(tane_get_flags(file, &flags, NULL) == 0 && flags & no_dump);
	/* This file system was made without projects. */
	CHECK(tane_set_project(file, 7) < 0);
	/* Nor does it share blocks. */
	CHECK(tane_shared_parts(file, 0, &part, 1) == 0);
	CHECK(tane_shared_parts(NULL, 0, &part, 1) == -EFAULT);
	tane_close(file);
	CHECK(tane_unlink(mount, "flags") == 0);
}

static void directories_are_listed(void)
{
	struct tane_dirent entry = { .size = sizeof(entry) };
	struct tane_dir *dir;
	int round, n, found;

	CHECK(tane_opendir(mount, "f", &dir) == -ENOTDIR);
	CHECK(tane_opendir(mount, "/", &dir) == 0);
	for (round = 0; round < 2; round++) {
		n = found = 0;
		while (tane_readdir(dir, &entry) == 1) {
			n++;
			CHECK(strlen(entry.name) == entry.name_len);
			if (!strcmp(entry.name, "f"))
				found = entry.type == S_IFREG;
		}
		CHECK(n == 3 && found);	/* lost+found, f, l */
		CHECK(tane_readdir(dir, &entry) == 0);
		CHECK(tane_rewinddir(dir) == 0);
	}
	tane_closedir(dir);
}

static void a_disk_of_memory_may_be_larger_than_that(void)
{
	const uint64_t size = 1ull << 42;
	char text[512] = "far behind", back[512] = "";
	struct tane_disk *disk;
	int64_t fd;

	CHECK(tane_disk_ram(kernel, size, NULL, &disk) == 0);
	CHECK(tane_disk_size(disk) == (int64_t)size);
	fd = tane_syscall(kernel, SYS_open, (uintptr_t)tane_disk_device(disk),
			  O_RDWR, 0, 0, 0, 0);
	CHECK(fd >= 0);
	CHECK(tane_syscall(kernel, SYS_pwrite64, fd, (uintptr_t)text, 512,
			   size - 512, 0, 0) == 512);
	CHECK(tane_syscall(kernel, SYS_fsync, fd, 0, 0, 0, 0, 0) == 0);
	CHECK(tane_syscall(kernel, SYS_pread64, fd, (uintptr_t)back, 512,
			   size - 512, 0, 0) == 512);
	CHECK(!memcmp(text, back, 512));
	CHECK(tane_syscall(kernel, SYS_close, fd, 0, 0, 0, 0, 0) == 0);
	tane_disk_close(disk);
}

/* Room for one name after the other, so that a call does not give them all. */
static void names_come_many_at_once_and_a_walk_goes_on_behind_them(void)
{
	struct tane_dirent entry = { .size = sizeof(entry) };
	char names[260], path[256];
	struct tane_dir *dir;
	unsigned char types[130];
	int n = 0, dirs = 0;
	int64_t len;

	CHECK(tane_mkdir(mount, "w", 0755) == 0);
	CHECK(tane_mkdir(mount, "w/d", 0755) == 0);
	memset(path, 'x', 255);
	memcpy(path, "w/d/", 4);
	path[255] = 0;
	CHECK(tane_mkdir(mount, path, 0755) == 0);
	CHECK(tane_list(mount, "w", TANE_LIST_WALK, &dir) == 0);
	CHECK(tane_read_names(dir, names, 255, types) == -EINVAL);
	do {
		while ((len = tane_read_names(dir, names, sizeof(names), types)) > 0) {
			CHECK(len == (int64_t)strlen(names) + 1);
			CHECK(types[0] == DT_DIR);
			n++;
		}
		CHECK(len == 0);
		dirs++;
	} while (tane_readdir(dir, &entry) == 2);
	CHECK(n == 2 && dirs == 3);
	CHECK(tane_rewinddir(dir) == 0);
	CHECK(tane_read_names(dir, names, sizeof(names), types) == 2);
	CHECK(!strcmp(names, "d"));
	tane_closedir(dir);
	CHECK(tane_remove_all(mount, "w") == 0);
}

static void *worker(void *arg)
{
	char path[32], content[4] = "";
	struct tane_file *file;
	long i;

	for (i = 0; i < 100; i++) {
		snprintf(path, sizeof(path), "t%ld-%ld", (long)arg, i);
		CHECK(!tane_open(mount, path, O_RDWR | O_CREAT, 0600, &file));
		CHECK(tane_write(file, "abc", 3) == 3);
		CHECK(tane_pread(file, content, 3, 0) == 3);
		CHECK(!strcmp(content, "abc"));
		tane_close(file);
		CHECK(tane_unlink(mount, path) == 0);
		CHECK(tane_unlink(mount, path) == -ENOENT);
		CHECK(strstr(tane_error_message(), path));
	}
	return NULL;
}

static void threads_do_not_disturb_each_other(void)
{
	pthread_t threads[4];
	long i;

	for (i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, worker, (void *)i));
	for (i = 0; i < 4; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static int bad_read(void *arg, void *buf, size_t len, uint64_t offset)
{
	(void)arg;
	(void)buf;
	(void)len;
	(void)offset;
	return -EIO;
}

static void count(void *arg)
{
	++*(int *)arg;
}

static void a_disk_of_functions_is_released_once(void)
{
	int released = 0;
	struct tane_block_ops ops = {
		.size = sizeof(ops),
		.capacity = 1 << 20,
		.release = count,
		.arg = &released,
	};
	struct tane_filesystem found = { .size = sizeof(found) };
	struct tane_kernel *halted;
	struct tane_disk *disk;

	CHECK(tane_kernel_boot(NULL, &halted) == 0);
	tane_kernel_halt(halted);
	CHECK(tane_disk_add(kernel, &ops, NULL, &disk) == -EFAULT);
	ops.read = bad_read;
	ops.capacity = 1000;
	CHECK(tane_disk_add(kernel, &ops, NULL, &disk) == -EINVAL);
	CHECK(released == 0);
	ops.capacity = 1 << 20;
	CHECK(tane_disk_add(halted, &ops, NULL, &disk) == -ESHUTDOWN);
	CHECK(released == 0);
	CHECK(tane_disk_add(kernel, &ops, NULL, &disk) == 0);
	CHECK(tane_disk_size(disk) == 1 << 20);
	CHECK(tane_disk_partitions(disk, NULL, 0) == 0);
	CHECK(tane_probe(kernel, tane_disk_device(disk), &found) == -EIO);
	CHECK(released == 0);
	tane_disk_close(disk);
	CHECK(released == 1);
	tane_kernel_close(halted);
}

static void what_the_log_says(void)
{
	static char log[1 << 20];
	int64_t len = tane_kernel_dmesg(kernel, NULL, 0);

	CHECK(len > 100 && len < (int64_t)sizeof(log));
	CHECK(tane_kernel_dmesg(kernel, log, 20) >= len);
	CHECK(strlen(log) == 19);
	CHECK(tane_kernel_dmesg(kernel, log, sizeof(log)) >= len);
	CHECK(strstr(log, "Linux version"));
}

static void log_line(void *arg, const char *text, size_t len)
{
	(void)text;
	*(size_t *)arg += len;
}

int main(int argc, char **argv)
{
	size_t logged = 0;
	struct tane_kernel_options options = {
		.size = sizeof(options),
		.memory = 64 << 20,
		.cmdline = "loglevel=7",
		.log = log_line,
		.log_arg = &logged,
	};
	struct tane_filesystem found = { .size = sizeof(found) };
	struct tane_statfs fs = { .size = sizeof(fs) };
	struct tane_disk *disk;

	CHECK(argc == 2);
	the_version_is_that_of_the_header();
	CHECK(!strcmp(tane_error_message(), ""));
	CHECK(tane_kernel_boot(&options, &kernel) == 0);
	CHECK(logged > 100);
	CHECK(tane_disk_open(kernel, "/none", NULL, &disk) == -ENOENT);
	CHECK(tane_disk_open(kernel, argv[1], NULL, &disk) == 0);
	CHECK(tane_probe(kernel, tane_disk_device(disk), &found) == 1);
	CHECK(!strcmp(found.type, "ext4") && !strcmp(found.label, "test"));
	CHECK(tane_mount(kernel, tane_disk_device(disk), NULL, &mount) == 0);
	CHECK(tane_mount_fd(mount) >= 0 && tane_mount_point(mount)[0] == '/');
	CHECK(tane_statfs(mount, &fs) == 0 && fs.magic == 0xef53);
	CHECK(fs.total > fs.free && fs.name_max == 255 && !fs.read_only);

	system_calls_go_to_the_kernel();
	a_kernel_has_as_many_cpus_as_asked_for();
	errors_are_negative_and_have_a_message();
	a_null_that_is_needed_is_efault();
	an_older_and_an_unknown_structure();
	files_are_written_and_read();
	entries_are_made_changed_and_removed();
	attributes();
	flags_are_set_and_seen();
	directories_are_listed();
	names_come_many_at_once_and_a_walk_goes_on_behind_them();
	threads_do_not_disturb_each_other();
	a_disk_of_functions_is_released_once();
	a_disk_of_memory_may_be_larger_than_that();
	what_the_log_says();

	CHECK(tane_sync(mount) == 0);
	CHECK(tane_unmount(mount) == 0);
	tane_disk_close(disk);
	CHECK(tane_kernel_trim(kernel) == 0);
	CHECK(tane_kernel_is_alive(kernel) == 1);
	tane_kernel_halt(kernel);
	CHECK(tane_kernel_is_alive(kernel) == 0);
	CHECK(tane_kernel_trim(kernel) == -ESHUTDOWN);
	CHECK(tane_syscall(kernel, SYS_getpid, 0, 0, 0, 0, 0, 0) == -ESHUTDOWN);
	tane_kernel_close(kernel);
	return 0;
}

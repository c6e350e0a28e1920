/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises of tane.h about mounts that the host's programs see. Arguments: an image
 * with an ext4, on which the file "hello" says "from C\n", an empty directory, and
 * "here" or "worker" for where Linux is. It runs as root.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tane.h>
#include <unistd.h>
#include "check.h"

static const char *file, *point;
static struct tane_kernel *kernel;

struct opened {
	struct tane_image *image;
	struct tane_mount *mount;
	pid_t worker;
};

static pthread_t first;
static int gives_up;

/* Only threads that call may be asked; the host's programs do not want to stop. */
static int interrupted(void *arg)
{
	(void)arg;
	return gives_up || !pthread_equal(pthread_self(), first);
}

static struct opened open_it(uint32_t flags)
{
	struct tane_worker_options worker = {
		.size = sizeof(worker), .interrupted = interrupted
	};
	struct tane_image_options options = {
		.size = sizeof(options),
		.flags = flags,
		.worker = kernel ? NULL : &worker,
	};
	struct opened at;

	CHECK(!tane_image_open(kernel, file, &options, &at.image));
	CHECK(!tane_image_mount(at.image, NULL, NULL, &at.mount));
	at.worker = tane_image_worker(at.image);
	CHECK(!at.worker == !!kernel);
	return at;
}

static struct tane_host_mount *show(struct opened *at)
{
	struct tane_host_mount *shown;

	CHECK(!tane_host_mount(at->mount, point, NULL, &shown));
	return shown;
}

static void close_it(struct opened *at)
{
	CHECK(!tane_unmount(at->mount));
	tane_image_close(at->image);
}

/* What a program of the host's does there, and that it succeeds. */
static void run(const char *script)
{
	char *words;

	CHECK(asprintf(&words, "cd '%s' && %s", point, script) > 0);
	CHECK(system(words) == 0);
	free(words);
}

/* What is in the directory of the host: nothing, once nothing is mounted there. */
static int names(void)
{
	struct dirent *entry;
	int count = 0;
	DIR *dir = opendir(point);

	CHECK(dir);
	while ((entry = readdir(dir)))
		count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	closedir(dir);
	return count;
}

static int says(const char *words)
{
	return strstr(tane_error_message(), words) != NULL;
}

static void what_cannot_be_shown_is_named(void)
{
	struct tane_host_mount_options options = { .size = sizeof(options) };
	struct tane_host_mount *shown = NULL;
	struct opened at = open_it(0);

	CHECK(tane_host_mount(at.mount, "/none", NULL, &shown) == -ENOENT);
	CHECK(says("/none"));
	CHECK(tane_host_mount(at.mount, file, NULL, &shown) == -ENOTDIR);
	CHECK(says(file));
	options.directory = "/missing";
	CHECK(tane_host_mount(at.mount, point, &options, &shown) == -ENOENT);
	CHECK(says("/missing"));
	options.directory = NULL;
	options.flags = 4;
	CHECK(tane_host_mount(at.mount, point, &options, &shown) == -EINVAL);
	options.flags = 0;
	options.size = sizeof(options) + 8;
	CHECK(tane_host_mount(at.mount, point, &options, &shown) == -EINVAL);
	CHECK(tane_host_mount(at.mount, NULL, NULL, &shown) == -EFAULT);
	CHECK(tane_host_mount(at.mount, point, NULL, NULL) == -EFAULT);
	CHECK(tane_host_mount(NULL, point, NULL, &shown) == -EFAULT);
	CHECK(tane_host_unmount(NULL) == -EFAULT);
	CHECK(tane_host_wait(NULL, 0) == -EFAULT);
	CHECK(!tane_host_mount_point(NULL));
	tane_host_mount_close(NULL);
	CHECK(!shown && names() == 0);
	close_it(&at);
}

static void the_hosts_programs_read_and_cannot_write_what_is_read_only(void)
{
	struct opened at = open_it(0);
	struct tane_host_mount *shown = show(&at);

	CHECK(!strcmp(tane_host_mount_point(shown), point));
	run("[ \"$(cat hello)\" = 'from C' ]");
	run("! touch new 2>/dev/null");
	run("grep -q ' fuse.tane tane ' /proc/self/mountinfo || "
	    "grep -q \"^tane $PWD fuse.tane ro\" /proc/self/mounts");
	CHECK(!tane_host_unmount(shown) && names() == 0);
	/* It is no error that it is gone. */
	CHECK(!tane_host_unmount(shown) && !tane_host_wait(shown, -1));
	tane_host_mount_close(shown);
	close_it(&at);
}

static void what_they_make_has_their_owner_and_mode(void)
{
	struct opened at = open_it(TANE_IMAGE_WRITE);
	struct tane_host_mount *shown = show(&at);
	struct tane_stat stat = { .size = sizeof(stat) };
	char *value;

	run("mkdir -m 777 open && mkdir -m 2777 group && chgrp 77 group && chmod 2777 group");
	run("mkdir -m 777 acl && setfacl -d -m u::rwx,g::rwx,o::r-x acl");
	run("cat >/tmp/tane-capi.$$ <<'END'\n"
	    "umask 027; cd \"$1\" || exit\n"
	    "echo x >open/f && mkdir open/d && ln -s f open/l && mkfifo open/p || exit\n"
	    "echo x >group/f && mkdir group/d && echo x >acl/f || exit\n"
	    "chmod 6750 open/f && cp -p open/f open/special && ln open/f open/hard || exit\n"
	    "mv open/hard open/moved && dd if=/dev/zero of=open/big bs=1M count=3 2>/dev/null\n"
	    "END\n"
	    "setpriv --reuid 1234 --regid 56 --clear-groups "
	    "sh /tmp/tane-capi.$$ \"$PWD\" && rm /tmp/tane-capi.$$");
	run("[ \"$(stat -c '%a %u %g' open/f open/d open/l open/p group/f group/d acl/f "
	    "open/special | tr '\\n' ,)\" = "
	    "'6750 1234 56,750 1234 56,777 1234 56,640 1234 56,640 1234 77,2750 1234 77,"
	    "664 1234 56,6750 1234 56,' ] || { stat -c '%n %a %u %g' */* >&2; false; }");
	run("[ \"$(stat -c '%h %s' open/moved open/big | tr '\\n' ,)\" = '2 2,1 3145728,' ]");
	/* Where nothing is to be had afterwards, nothing is left. */
	run("! setpriv --reuid 1234 --regid 56 --clear-groups touch hello2 2>/dev/null");
	run("[ ! -e hello2 ]");
	CHECK(!tane_host_unmount(shown));
	tane_host_mount_close(shown);
	CHECK(!tane_stat(at.mount, "open/f", 0, &stat));
	CHECK(stat.uid == 1234 && stat.gid == 56 && stat.length == 2);
	value = malloc(256);
	CHECK(value && tane_getxattr(at.mount, "acl", "system.posix_acl_default", value, 256, 0) > 0);
	free(value);
	close_it(&at);
}

static void *wait_for_it(void *shown)
{
	CHECK(!tane_host_wait(shown, -1));
	return NULL;
}

static void what_is_in_use_stays_and_who_waits_hears_of_the_end(void)
{
	struct tane_image_options writes = {
		.size = sizeof(writes), .flags = TANE_IMAGE_WRITE
	};
	struct opened at = open_it(0);
	struct tane_host_mount *shown = show(&at);
	pthread_t thread;
	char text[8] = "";
	char *name;
	int fd, result, tries;

	CHECK(asprintf(&name, "%s/hello", point) > 0);
	fd = open(name, O_RDONLY);
	CHECK(fd >= 0);
	CHECK(tane_host_unmount(shown) == -EBUSY && says(point));
	CHECK(tane_host_wait(shown, 1) == -ETIMEDOUT && says(point));
	CHECK(pread(fd, text, 7, 0) == 7 && !strcmp(text, "from C\n"));
	close(fd);
	CHECK(!pthread_create(&thread, NULL, wait_for_it, shown));
	CHECK(!tane_host_unmount(shown));
	CHECK(!pthread_join(thread, NULL));
	tane_host_mount_close(shown);

	/* Somebody else unmounts it. */
	shown = show(&at);
	CHECK(!pthread_create(&thread, NULL, wait_for_it, shown));
	CHECK(asprintf(&name, "umount '%s'", point) > 0);
	CHECK(system(name) == 0);
	CHECK(!pthread_join(thread, NULL) && !tane_host_unmount(shown));
	tane_host_mount_close(shown);

	/* A handle that ends takes it from view. */
	shown = show(&at);
	CHECK(names() > 0);
	tane_host_mount_close(shown);
	CHECK(names() == 0);
	/* Its threads may still be about to end, and have the image then. */
	result = tane_unmount(at.mount);
	CHECK(!result || result == -EBUSY);
	tane_image_close(at.image);
	for (tries = 0; tane_image_open(kernel, file, &writes, &at.image); tries++) {
		CHECK(tries < 10000);
		usleep(1000);
	}
	tane_image_close(at.image);
}

static void a_child_of_fork_leaves_it_as_it_is(void)
{
	struct opened at = open_it(0);
	struct tane_host_mount *shown = show(&at);
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		int ok = tane_host_unmount(shown) == -ENOTSUP &&
			 tane_host_wait(shown, -1) == -ENOTSUP;

		tane_host_mount_close(shown);
		_exit(!ok);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	run("[ \"$(cat hello)\" = 'from C' ]");
	CHECK(!tane_host_unmount(shown));
	tane_host_mount_close(shown);
	close_it(&at);
}

static void what_is_shown_stays_though_its_mount_is_ended(void)
{
	struct opened at = open_it(TANE_IMAGE_WRITE);
	struct tane_host_mount *shown = show(&at);

	run("echo kept >last");
	CHECK(tane_unmount(at.mount) == -EBUSY && says("tane_host_unmount"));
	tane_image_close(at.image);
	run("[ \"$(cat last)\" = kept ]");
	CHECK(!tane_host_unmount(shown));
	tane_host_mount_close(shown);
}

/* Of a worker alone. */
static void nobody_gives_up_what_the_hosts_programs_ask(void)
{
	struct opened at = open_it(0);
	struct tane_host_mount *shown = show(&at);
	char *command;
	FILE *cat;
	char text[8] = "";

	gives_up = 1;
	CHECK(!kill(at.worker, SIGSTOP));
	CHECK(asprintf(&command, "cat '%s/hello'", point) > 0);
	cat = popen(command, "r");
	/* Longer than it takes to be asked whether a call is to be given up. */
	usleep(200000);
	CHECK(!kill(at.worker, SIGCONT));
	CHECK(fread(text, 1, 7, cat) == 7 && !strcmp(text, "from C\n"));
	CHECK(pclose(cat) == 0);
	gives_up = 0;

	/* A worker that ends is an error, and the mount can be taken away. */
	CHECK(!kill(at.worker, SIGKILL));
	run("! cat hello-2 2>/dev/null");
	run("sh -c 'ls / >/dev/null'");
	CHECK(chdir("/") == 0);
	CHECK(!tane_host_unmount(shown) && names() == 0);
	tane_host_mount_close(shown);
	CHECK(tane_unmount(at.mount) == -ESHUTDOWN);
	tane_image_close(at.image);
}

int main(int argc, char **argv)
{
	CHECK(argc == 4);
	file = argv[1];
	point = argv[2];
	first = pthread_self();
	if (!strcmp(argv[3], "here"))
		CHECK(!tane_kernel_boot(NULL, &kernel));

	what_cannot_be_shown_is_named();
	the_hosts_programs_read_and_cannot_write_what_is_read_only();
	what_they_make_has_their_owner_and_mode();
	what_is_in_use_stays_and_who_waits_hears_of_the_end();
	a_child_of_fork_leaves_it_as_it_is();
	what_is_shown_stays_though_its_mount_is_ended();
	if (!kernel)
		nobody_gives_up_what_the_hosts_programs_ask();
	tane_kernel_close(kernel);
	return 0;
}

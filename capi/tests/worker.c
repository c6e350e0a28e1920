/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Promises of tane.h about workers: their deaths, limits, forks of their caller,
 * several of them, and calls that are given up. The only argument is an image with
 * an ext4, on which the file "hello" says "from C\n".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <tane.h>
#include <time.h>
#include <unistd.h>
#include "check.h"

static const char *file;

struct opened {
	struct tane_image *image;
	struct tane_mount *mount;
	pid_t worker;
};

static int try_open(struct opened *at, struct tane_worker_options *worker)
{
	struct tane_image_options options = {
		.size = sizeof(options), .worker = worker
	};

	if (worker)
		worker->size = sizeof(*worker);
	return tane_image_open(NULL, file, &options, &at->image);
}

static struct opened open_it(struct tane_worker_options *worker)
{
	struct opened at;

	CHECK(!try_open(&at, worker));
	CHECK(!tane_image_mount(at.image, NULL, NULL, &at.mount));
	at.worker = tane_image_worker(at.image);
	CHECK(at.worker > 0 && at.worker != getpid());
	return at;
}

static int look(struct opened *at)
{
	struct tane_stat stat = { .size = sizeof(stat) };
	int result = tane_stat(at->mount, "hello", 0, &stat);

	CHECK(result || stat.length == 7);
	return result;
}

static void close_it(struct opened *at, int expected)
{
	CHECK(tane_unmount(at->mount) == expected);
	tane_image_close(at->image);
	CHECK(kill(at->worker, 0) == -1 && errno == ESRCH);
}

static void a_dead_worker_is_eshutdown_and_says_of_what(void)
{
	struct opened at = open_it(NULL);
	struct tane_file *open;
	char text[16];

	CHECK(!tane_open(at.mount, "hello", O_RDONLY, 0, &open));
	CHECK(!kill(at.worker, SIGKILL));
	while (!look(&at))
		;
	CHECK(look(&at) == -ESHUTDOWN);
	CHECK(strstr(tane_error_message(), "killed by SIGKILL"));
	CHECK(tane_pread(open, text, sizeof(text), 0) == -ESHUTDOWN);
	tane_close(open);
	close_it(&at, -ESHUTDOWN);
}

static void what_shares_memory_with_the_kernel_is_refused(void)
{
	struct opened at = open_it(NULL);
	struct tane_buffer *buffer = NULL;
	struct tane_file *open, *made = NULL;
	struct tane_kernel *kernel;
	struct tane_map *map = NULL;

	CHECK(!tane_image_kernel(at.image, &kernel));
	CHECK(!tane_open(at.mount, "hello", O_RDONLY, 0, &open));
	CHECK(tane_map(open, 0, 7, 0, &map) == -EOPNOTSUPP && !map);
	CHECK(tane_buffer_alloc(kernel, 1, &buffer) == -EOPNOTSUPP && !buffer);
	CHECK(tane_fdopen(kernel, tane_fd(open), &made) == -EOPNOTSUPP && !made);
	CHECK(tane_syscall(kernel, SYS_getppid, 0, 0, 0, 0, 0, 0) == -EOPNOTSUPP);
	tane_close(open);
	tane_kernel_close(kernel);
	close_it(&at, 0);
}

static void a_time_limit_ends_it(void)
{
	struct tane_worker_options worker = { .milliseconds = 1500 };
	struct opened at = open_it(&worker);
	int result;

	while (!(result = look(&at)))
		;
	CHECK(result == -ESHUTDOWN);
	CHECK(strstr(tane_error_message(), "time limit of 1.5s"));
	close_it(&at, -ESHUTDOWN);
}

static unsigned long long limit_of_data(pid_t pid)
{
	char path[64], line[256];
	unsigned long long limit = 0;
	FILE *limits;

	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	limits = fopen(path, "r");
	CHECK(limits);
	while (fgets(line, sizeof(line), limits))
		sscanf(line, "Max data size %llu", &limit);
	fclose(limits);
	return limit;
}

static void a_memory_limit_holds_and_too_little_is_an_error(void)
{
	struct tane_worker_options worker = { .memory_limit = 1ULL << 30 };
	struct opened at = open_it(&worker), none = { .image = NULL };
	int result;

	CHECK(limit_of_data(at.worker) == 1ULL << 30);
	CHECK(!look(&at));
	close_it(&at, 0);
	at = open_it(NULL);
	CHECK(limit_of_data(at.worker) == 4ULL << 30);
	close_it(&at, 0);
	/* Less than the threads that serve the kernel take. */
	worker.memory_limit = 1 << 20;
	result = try_open(&none, &worker);
	CHECK(result < 0 && !none.image && *tane_error_message());
}

static void a_fork_of_the_caller_cannot_use_it_and_harms_nothing(void)
{
	struct opened at = open_it(NULL), own;
	struct tane_file *open;
	char text[16];
	int status;
	pid_t child;

	CHECK(!tane_open(at.mount, "hello", O_RDONLY, 0, &open));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		alarm(120);
		CHECK(look(&at) == -ENOTSUP);
		CHECK(tane_pread(open, text, sizeof(text), 0) == -ENOTSUP);
		tane_close(open);
		CHECK(tane_unmount(at.mount) == -ENOTSUP);
		tane_image_close(at.image);
		own = open_it(NULL);
		CHECK(!look(&own));
		close_it(&own, 0);
		/* With destructors and what atexit(3) knows. */
		exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(!look(&at));
	CHECK(tane_pread(open, text, sizeof(text), 0) == 7);
	tane_close(open);
	close_it(&at, 0);
}

static void *look_often(void *arg)
{
	for (int i = 0; i < 200; i++)
		CHECK(!look(arg));
	return NULL;
}

static void two_workers_at_once_know_nothing_of_each_other(void)
{
	struct opened one = open_it(NULL), other = open_it(NULL);
	pthread_t threads[2];

	CHECK(one.worker != other.worker);
	CHECK(!pthread_create(&threads[0], NULL, look_often, &one));
	CHECK(!pthread_create(&threads[1], NULL, look_often, &other));
	CHECK(!pthread_join(threads[0], NULL) && !pthread_join(threads[1], NULL));
	CHECK(!kill(one.worker, SIGKILL));
	while (!look(&one))
		;
	look_often(&other);
	close_it(&one, -ESHUTDOWN);
	close_it(&other, 0);
}

static int is_set(void *arg)
{
	return __atomic_load_n((int *)arg, __ATOMIC_SEQ_CST);
}

static void a_call_of_a_silent_worker_can_be_given_up(void)
{
	int give_up = 0;
	struct tane_worker_options worker = {
		.interrupted = is_set, .interrupted_arg = &give_up
	};
	struct opened at = open_it(&worker);
	int result;

	CHECK(!kill(at.worker, SIGSTOP));
	give_up = 1;
	/* It may still answer one while its threads stop. */
	while (!(result = look(&at)))
		;
	CHECK(result == -EINTR);
	CHECK(strstr(tane_error_message(), "given up"));
	give_up = 0;
	CHECK(!kill(at.worker, SIGCONT));
	CHECK(!look(&at));
	close_it(&at, 0);
}

static void a_program_that_waits_for_any_child_loses_nothing_else(void)
{
	struct opened at = open_it(NULL);
	int result;

	CHECK(!kill(at.worker, SIGKILL));
	CHECK(waitpid(-1, NULL, 0) == at.worker);
	while (!(result = look(&at)))
		;
	CHECK(result == -ESHUTDOWN);
	close_it(&at, -ESHUTDOWN);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	file = argv[1];
	a_dead_worker_is_eshutdown_and_says_of_what();
	what_shares_memory_with_the_kernel_is_refused();
	a_time_limit_ends_it();
	a_memory_limit_holds_and_too_little_is_an_error();
	a_fork_of_the_caller_cannot_use_it_and_harms_nothing();
	two_workers_at_once_know_nothing_of_each_other();
	a_call_of_a_silent_worker_can_be_given_up();
	a_program_that_waits_for_any_child_loses_nothing_else();
	/* None is left behind. */
	CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
	return 0;
}

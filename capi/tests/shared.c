/* SPDX-License-Identifier: GPL-2.0-only */
/* A kernel that a child of fork(2) goes on using. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

static int64_t call(struct tane_kernel *kernel, long nr, const void *a,
		    const void *b, const void *c)
{
	return tane_syscall(kernel, nr, (uintptr_t)a, (uintptr_t)b,
			    (uintptr_t)c, 0, 0, 0);
}

static int64_t transfer(struct tane_kernel *kernel, long nr, int fd, void *buf,
			size_t len)
{
	return tane_syscall(kernel, nr, fd, (uintptr_t)buf, len, 0, 0, 0);
}

static void child(struct tane_kernel *kernel, const int *there, const int *back)
{
	char text[32];

	CHECK(tane_syscall(kernel, SYS_getppid, 0, 0, 0, 0, 0, 0) == 1);
	CHECK(tane_syscall(kernel, SYS_close, there[1], 0, 0, 0, 0, 0) == 0);
	CHECK(transfer(kernel, SYS_read, there[0], text, sizeof(text)) == 5);
	CHECK(memcmp(text, "hello", 5) == 0);
	CHECK(transfer(kernel, SYS_write, back[1], "there", 5) == 5);
	/* The end, and then another's. */
	CHECK(transfer(kernel, SYS_read, there[0], text, sizeof(text)) == 0);
	_exit(7);
}

static void shared(const struct tane_kernel_options *options)
{
	int there[2], back[2], status = -1, inside = -1;
	struct tane_kernel *kernel;
	char text[32];
	pid_t pid;

	CHECK(tane_kernel_boot(options, &kernel) == 0);
	CHECK(tane_kernel_forked(kernel) == -ENOTSUP);
	CHECK(call(kernel, SYS_pipe, there, NULL, NULL) == 0);
	CHECK(call(kernel, SYS_pipe, back, NULL, NULL) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		child(kernel, there, back);
	CHECK(tane_kernel_forked(kernel) > 1);
	CHECK(transfer(kernel, SYS_write, there[1], "hello", 5) == 5);
	CHECK(transfer(kernel, SYS_read, back[0], text, sizeof(text)) == 5);
	CHECK(memcmp(text, "there", 5) == 0);
	CHECK(tane_syscall(kernel, SYS_close, there[1], 0, 0, 0, 0, 0) == 0);
	CHECK(tane_syscall(kernel, SYS_wait4, tane_kernel_forked(kernel),
			   (uintptr_t)&inside, 0, 0, 0, 0) ==
	      tane_kernel_forked(kernel));
	CHECK(WIFEXITED(inside) && WEXITSTATUS(inside) == 7);
	CHECK(waitpid(pid, &status, 0) == pid && status == inside);
	tane_kernel_close(kernel);
}

/* Without the flag a child has nothing. */
static void alone(struct tane_kernel_options options)
{
	struct tane_kernel *kernel;
	int status = -1;
	pid_t pid;

	options.flags = 0;
	CHECK(tane_kernel_boot(&options, &kernel) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(tane_syscall(kernel, SYS_getpid, 0, 0, 0, 0, 0, 0) ==
		      -ENOTSUP ? 0 : 1);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	CHECK(tane_kernel_forked(kernel) == -ENOTSUP);
	tane_kernel_close(kernel);
}

int main(void)
{
	struct tane_kernel_options options = {
		.size = sizeof(options),
		.flags = TANE_KERNEL_SHARED,
	};

	shared(&options);
	alone(options);
	return 0;
}

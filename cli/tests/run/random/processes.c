// SPDX-License-Identifier: GPL-2.0-only
/* Children that are waited for, stopped, killed, executed and talked to. */
#define _GNU_SOURCE
#include "random.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * All of it, unless who reads has had enough. How many parts there are depends on who
 * runs when: they have dice of their own.
 */
static void write_all(int fd, const unsigned char *bytes, size_t len)
{
	unsigned int own = roll(1 << 30);

	while (len) {
		size_t part = 1 + rand_r(&own) % 9000;
		ssize_t n = write(fd, bytes, part < len ? part : len);

		if (n < 0)
			_exit(1 + (errno == EPIPE));
		bytes += n;
		len -= n;
	}
}

/* Bytes through a pipe and back, or into one that nobody reads to the end. */
void do_pipe(void)
{
	static unsigned char bytes[600000];
	size_t len = 1 + roll(sizeof(bytes)), half = len / 2, got = 0;
	int ends[2], early = !roll(3), code = 3 + roll(50);
	unsigned int own = roll(1 << 30);
	uint32_t sum = 0;
	pid_t child;

	if (early)
		len = sizeof(bytes);
	must(!pipe2(ends, roll(2) ? O_CLOEXEC : 0), "pipe");
	child = fork();
	must(child >= 0, "fork");
	if (!child) {
		close(ends[0]);
		if (roll(2))
			signal(SIGPIPE, SIG_IGN);
		fill(bytes, len);
		write_all(ends[1], bytes, len);
		close(ends[1]);
		_exit(code);
	}
	close(ends[1]);
	while (!early || got < half / 4) {
		unsigned char part[8192];
		ssize_t n = read(ends[0], part, 1 + rand_r(&own) % sizeof(part));

		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n; i++)
			sum = (sum ^ part[i]) * 16777619u;
		got += n;
	}
	close(ends[0]);
	if (early)
		tell("enough");
	else
		tell("%zu bytes of %zu: %08x", got, len, sum);
	tell_end("writer", child);
}

/* Children whose output is put in order; one after the other, or together. */
void do_children(int depth)
{
	int count = 1 + roll(4), together = roll(2), outs[4];
	pid_t children[4];
	char line[4096];
	ssize_t n;

	for (int i = 0; i < count; i++) {
		char name[] = "out.X";

		name[4] = '0' + i;
		outs[i] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
		must(outs[i] >= 0, "open");
		uint32_t seed = roll(1 << 30);

		children[i] = fork();
		must(children[i] >= 0, "fork");
		if (!children[i]) {
			char dir[] = "dir.X";

			dir[4] = '0' + i;
			mkdir(dir, 0755);
			must(!chdir(dir), "chdir");
			dup2(outs[i], 1);
			for (int j = 0; j <= i; j++)
				close(outs[j]);
			seed_dice(seed);
			actions(depth);
			_exit(roll(100));
		}
		if (!together)
			tell_end("child", children[i]);
	}
	for (int i = 0; i < count; i++) {
		if (together)
			tell_end("child", children[i]);
		lseek(outs[i], 0, SEEK_SET);
		while ((n = read(outs[i], line, sizeof(line))) > 0)
			must(write(1, line, n) == n, "write");
		close(outs[i]);
	}
}

void do_stops(void)
{
	pid_t child = fork();
	static const int deadly[] = { SIGKILL, SIGTERM, SIGHUP, SIGUSR1, SIGSEGV };
	int last = deadly[roll(5)], status;
	siginfo_t info;
	pid_t got;

	must(child >= 0, "fork");
	if (!child) {
		struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		if (roll(2))
			for (;;)
				pause();
		for (;;)
			__asm__ volatile("" ::: "memory");
	}
	for (int n = roll(3); n; n--) {
		kill(child, SIGSTOP);
		got = waitpid(child, &status, WUNTRACED);
		tell("stopped: %d, by %d", got == child, WIFSTOPPED(status) ? WSTOPSIG(status) : -1);
		tell("nothing new: %d", waitpid(child, NULL, WNOHANG | WUNTRACED));
		kill(child, SIGCONT);
		got = waitpid(child, &status, WCONTINUED);
		tell("goes on: %d, %d", got == child, WIFCONTINUED(status));
	}
	kill(child, last);
	memset(&info, 0, sizeof(info));
	got = waitid(P_PID, child, &info, WEXITED | WNOWAIT);
	tell("left: %s, signal %d, code %d, status %d", error_of(got), info.si_signo,
	     info.si_code == CLD_DUMPED ? CLD_KILLED : info.si_code, info.si_status);
	tell_end("stopped one", child);
	tell("gone: %s", error_of(kill(child, 0)));
}

static char **words(void)
{
	static char *list[24];
	static char text[24][200];
	int count = 2 + roll(20);

	list[0] = "random";
	list[1] = "--child";
	for (int i = 2; i < count; i++) {
		int len = roll(190);

		memset(text[i], 'a' + i, len);
		text[i][len] = 0;
		list[i] = text[i];
	}
	list[count] = NULL;
	return list;
}

void do_exec(void)
{
	char *environment[] = { roll(2) ? "GIVEN=yes" : "OTHER=no", NULL };
	int vforks = roll(2), fails = !roll(4);
	char **list = words();
	pid_t child;
	int fd = open("kept", O_RDWR | O_CREAT, 0600);

	must(fd >= 0, "open");
	for (int to = 40; to < 48; to++)
		dup3(fd, to, roll(2) ? O_CLOEXEC : 0);
	child = vforks ? vfork() : fork();
	must(child >= 0, "fork");
	if (!child) {
		execve(fails ? "/none/such" : "/proc/self/exe", list, environment);
		_exit(errno);
	}
	tell_end(vforks ? "vfork and exec" : "fork and exec", child);
	for (int to = 40; to < 48; to++)
		close(to);
	close(fd);
}

void do_spawn(void)
{
	char *environment[] = { "GIVEN=spawned", NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	char bytes[8192];
	sigset_t mask;
	ssize_t n;
	pid_t child;
	int error, fd;

	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_addopen(&files, 1, roll(5) ? "spawned" : "none/such",
					 O_RDWR | O_CREAT | O_TRUNC, 0644);
	sigfillset(&mask);
	posix_spawnattr_setsigmask(&attributes, &mask);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK |
				 (roll(2) ? POSIX_SPAWN_SETPGROUP : 0));
	error = posix_spawn(&child, "/proc/self/exe", &files, &attributes, words(), environment);
	tell("posix_spawn: %s", error ? strerrorname_np(error) : "ok");
	posix_spawn_file_actions_destroy(&files);
	if (error)
		return;
	tell_end("spawned", child);
	fd = open("spawned", O_RDONLY);
	n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
	tell("it wrote %zd bytes: %08x", n, sum_of(bytes, n > 0 ? n : 0));
	close(fd);
}

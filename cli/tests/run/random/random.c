// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
/*
 * A random program: from a seed it chooses what it does with files, memory, processes,
 * signals and threads, and tells what came of it. All that it tells follows from the
 * seed, whatever the scheduler does, so that two kernels have to say the same.
 *
 * usage: random FIRST LAST        a line "seed N" before each
 *        random --child WORD...   what it executes itself
 */
#include "random.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t dice;
static int level;

void seed_dice(uint64_t seed)
{
	dice = seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull;
	roll(2);
	roll(2);
}

uint32_t roll(uint32_t below)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 24) % below;
}

void tell(const char *format, ...)
{
	char line[512];
	int len = snprintf(line, sizeof(line), "%*s", 2 * level, "");
	va_list args;

	va_start(args, format);
	len += vsnprintf(line + len, sizeof(line) - len - 1, format, args);
	va_end(args);
	line[len++] = '\n';
	/* At once: children would have what is not yet written. */
	for (int at = 0; at < len;) {
		ssize_t n = write(1, line + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(99);
		at += n;
	}
}

const char *error_of(long result)
{
	return result >= 0 ? "ok" : strerrorname_np(errno);
}

uint32_t sum_of(const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	uint32_t sum = 2166136261u;

	while (len--)
		sum = (sum ^ *at++) * 16777619u;
	return sum;
}

void fill(void *bytes, size_t len)
{
	unsigned char *at = bytes;
	uint32_t from = roll(1 << 30);

	while (len--) {
		from = from * 1664525 + 1013904223;
		*at++ = from >> 24;
	}
}

void must(int holds, const char *what)
{
	if (holds)
		return;
	tell("%s: %s", what, strerrorname_np(errno));
	_exit(98);
}

void tell_end(const char *what, pid_t child)
{
	int status;
	pid_t got;

	do
		got = waitpid(child, &status, 0);
	while (got < 0 && errno == EINTR);
	if (got != child)
		tell("%s: %s", what, error_of(-1));
	else if (WIFEXITED(status))
		tell("%s: exit %d", what, WEXITSTATUS(status));
	else
		tell("%s: signal %d", what, WTERMSIG(status));
}

void actions(int depth)
{
	int count = 2 + roll(4);

	level++;
	while (count--) {
		switch (roll(depth ? 14 : 10)) {
		case 0:	do_files(); break;
		case 1:	do_descriptors(); break;
		case 2:	do_memory(); break;
		case 3:	do_shared_memory(); break;
		case 4:	do_faults(); break;
		case 5:	do_signals(); break;
		case 6:	do_timers(); break;
		case 7:	do_poll(); break;
		case 8:	do_threads(); break;
		case 9:	do_stops(); break;
		case 10: do_exec(); break;
		case 11: do_spawn(); break;
		case 12: do_pipe(); break;
		case 13: do_children(depth - 1); break;
		}
	}
	level--;
}

/* Whatever was made there goes away with it. */
static void in_a_directory(uint64_t seed)
{
	char name[] = "random.XXXXXX";
	pid_t child;

	must(mkdtemp(name) != NULL, "mkdtemp");
	child = fork();
	must(child >= 0, "fork");
	if (!child) {
		must(!chdir(name), "chdir");
		seed_dice(seed);
		actions(2);
		_exit(roll(128));
	}
	tell_end("program", child);
	child = fork();
	must(child >= 0, "fork");
	if (!child) {
		execlp("rm", "rm", "-rf", name, NULL);
		_exit(97);
	}
	waitpid(child, NULL, 0);
}

/* How a program ends that this one has executed. */
static int executed(int argc, char **argv)
{
	char *inherited = getenv("GIVEN");

	level = 3;
	tell("executed with %d words, the last is %s, GIVEN is %s", argc, argv[argc - 1],
	     inherited ? inherited : "not set");
	/* What is open is what was left open. */
	for (int fd = 40; fd < 48; fd++)
		if (lseek(fd, 0, SEEK_CUR) >= 0)
			tell("%d is open", fd);
	return argc % 100;
}

int main(int argc, char **argv)
{
	uint64_t first, last;

	if (argc > 1 && !strcmp(argv[1], "--child"))
		return executed(argc, argv);
	if (argc != 3)
		return 2;
	umask(022);
	/* Of whoever started this, something may be ignored or open. */
	for (int number = 1; number < 32; number++)
		if (number != 9 && number != 19)
			signal(number, SIG_DFL);
	closefrom(3);
	first = strtoull(argv[1], NULL, 10);
	last = strtoull(argv[2], NULL, 10);
	for (uint64_t seed = first; seed <= last; seed++) {
		tell("seed %llu", (unsigned long long)seed);
		in_a_directory(seed);
	}
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The vDSO, one promise for each first argument. What is printed is the same on any
 * Linux; "set" and "namespace" change clocks, and are for this one.
 */
#include "process.h"
#include <elf.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* By the version's symbols, as programs do that have no loader. */
static void *find(const char *name)
{
	char *base = (char *)getauxval(AT_SYSINFO_EHDR);
	Elf64_Ehdr *file = (void *)base;
	Elf64_Phdr *part = (void *)(base + file->e_phoff);
	Elf64_Dyn *dynamic = NULL;
	char *bias = NULL, *strings = NULL;
	Elf64_Sym *symbols = NULL;

	CHECK(base && !memcmp(base, ELFMAG, SELFMAG));
	for (int i = 0; i < file->e_phnum; i++) {
		if (part[i].p_type == PT_LOAD)
			bias = base + part[i].p_offset - part[i].p_vaddr;
		if (part[i].p_type == PT_DYNAMIC)
			dynamic = (void *)(base + part[i].p_offset);
	}
	CHECK(bias && dynamic);
	for (; dynamic->d_tag; dynamic++) {
		if (dynamic->d_tag == DT_STRTAB)
			strings = bias + dynamic->d_un.d_ptr;
		if (dynamic->d_tag == DT_SYMTAB)
			symbols = (void *)(bias + dynamic->d_un.d_ptr);
	}
	CHECK(strings && symbols);
	for (; (char *)symbols < strings; symbols++)
		if (!strcmp(strings + symbols->st_name, name))
			return bias + symbols->st_value;
	CHECK(!name);
	return NULL;
}

static int (*gettime)(clockid_t clock, struct timespec *now);

static int64_t by_vdso(clockid_t clock)
{
	struct timespec now;

	CHECK(!gettime(clock, &now) && now.tv_nsec < 1000000000);
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t by_call(clockid_t clock)
{
	struct timespec now;

	CHECK(!syscall(SYS_clock_gettime, clock, &now));
	return now.tv_sec * 1000000000 + now.tv_nsec;
}

static const clockid_t clocks[] = {
	CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID,
	CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_TAI,
};

static void compare(int times)
{
	for (int i = 0; i < times; i++)
		for (int at = 0; at < sizeof(clocks) / sizeof(*clocks); at++) {
			int64_t before = by_call(clocks[at]), now = by_vdso(clocks[at]);
			int64_t after = by_call(clocks[at]);

			if (before > now || now > after) {
				printf("clock %d: %ld %ld %ld\n", clocks[at], before, now, after);
				exit(1);
			}
		}
}

/* It tells what the calls tell. */
static int tells(void)
{
	int (*getres)(clockid_t clock, struct timespec *res) = find("__vdso_clock_getres");
	int (*getday)(struct timeval *now, void *zone) = find("__vdso_gettimeofday");
	time_t (*gettime_s)(time_t *now) = find("__vdso_time");
	long (*getcpu)(unsigned int *cpu, unsigned int *node, void *unused) = find("__vdso_getcpu");
	unsigned int cpu = -1, node = -1;
	struct timespec res;
	struct timeval now;
	cpu_set_t one;
	time_t stored;

	compare(3000);
	for (int i = 0; i < 3000; i++) {
		int64_t before = by_call(CLOCK_REALTIME) / 1000, micros;
		time_t second = by_call(CLOCK_REALTIME_COARSE) / 1000000000;

		CHECK(!getday(&now, NULL));
		micros = now.tv_sec * 1000000l + now.tv_usec;
		CHECK(before <= micros && micros <= by_call(CLOCK_REALTIME) / 1000);
		CHECK(gettime_s(&stored) >= second && time(NULL) - second < 2);
	}
	CHECK(!getres(CLOCK_MONOTONIC, &res));
	printf("%ld %ld\n", res.tv_sec, res.tv_nsec);
	printf("%d %d\n", gettime(77, &res), getres(77, &res));
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
	CHECK(!getcpu(&cpu, &node, NULL));
	printf("%d %d\n", cpu, node);
	return 0;
}

static volatile int ticks;

static void ticked(int number)
{
	struct timespec now;

	gettime(CLOCK_MONOTONIC, &now);
	ticks++;
}

/* Signals come while it is asked, and threads ask at once. */
static void *asks(void *unused)
{
	int64_t last = 0;

	while (ticks < 200) {
		int64_t now = by_vdso(CLOCK_MONOTONIC);

		CHECK(now >= last);
		last = now;
	}
	return unused;
}

static int disturbed(void)
{
	struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	pthread_t threads[3];

	signal(SIGALRM, ticked);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(threads + i, NULL, asks, NULL));
	asks(NULL);
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_join(threads[i], NULL));
	puts("went on");
	return 0;
}

/* Its pages are what their names say, and nobody writes to them. */
static int maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[256];

	while (fgets(line, sizeof(line), maps)) {
		unsigned long from;
		char flags[5];

		if (!strstr(line, "[vdso]") && !strstr(line, "[vvar]"))
			continue;
		CHECK(sscanf(line, "%lx-%*x %4s", &from, flags) == 2);
		if (strstr(line, "[vdso]"))
			CHECK(from == getauxval(AT_SYSINFO_EHDR));
		printf("%s %s", flags, strchr(line, '['));
	}
	return 0;
}

/* Who sets the clock is told so by it. */
static int set(void)
{
	struct timespec later = { 2000000000, 0 };

	by_vdso(CLOCK_REALTIME);
	CHECK(!clock_settime(CLOCK_REALTIME, &later));
	printf("%ld\n", by_vdso(CLOCK_REALTIME) / 10000000000000);
	compare(100);
	return 0;
}

/* In a namespace of time it tells that one's. */
static int namespace(void)
{
	int64_t before = by_vdso(CLOCK_MONOTONIC);
	FILE *offsets;
	pid_t child;

	CHECK(!unshare(CLONE_NEWTIME));
	offsets = fopen("/proc/self/timens_offsets", "w");
	CHECK(offsets && fprintf(offsets, "monotonic 5000 0\n") > 0 && !fclose(offsets));
	compare(100);
	child = fork();
	if (!child) {
		compare(100);
		printf("%ld\n", (by_vdso(CLOCK_MONOTONIC) - before) / 100000000000);
		fflush(stdout);
		execl(self, self, "compare", NULL);
		_exit(9);
	}
	printf("%#x\n", wait_for(child));
	return 0;
}

/* Behind what struct vdso_data has of the clocks is where the host's code is. */
static uint8_t *call_of_hosts(void)
{
	uint64_t *data = (uint64_t *)(getauxval(AT_SYSINFO_EHDR) - 2 * 4096);
	uint8_t *code = (uint8_t *)(data[31] & -4096);

	for (int at = 0; at < 4095; at++)
		if (code[at] == 0x0f && code[at + 1] == 0x05)
			return code + at;
	return NULL;
}

/* The host's code is no way to the host's calls. */
static int jumps(void)
{
	uint8_t *code = call_of_hosts();
	struct user_regs_struct regs;
	pid_t child;

	CHECK(code);
	child = fork();
	if (!child) {
		CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
		raise(SIGSTOP);
		_exit(9);
	}
	CHECK(WSTOPSIG(wait_for(child)) == SIGSTOP);
	CHECK(!ptrace(PTRACE_GETREGS, child, 0, &regs));
	regs.rip = (uintptr_t)code;
	regs.rax = SYS_getppid;
	regs.orig_rax = -1;
	CHECK(!ptrace(PTRACE_SETREGS, child, 0, &regs));
	CHECK(!ptrace(PTRACE_SINGLESTEP, child, 0, 0));
	CHECK(WSTOPSIG(wait_for(child)) == SIGTRAP);
	CHECK(!ptrace(PTRACE_GETREGS, child, 0, &regs));
	CHECK(regs.rip == (uintptr_t)code + 2);
	printf("%d\n", regs.rax == getpid());
	kill(child, SIGKILL);
	wait_for(child);
	return 0;
}

/* Without the clocks of processes, which are calls everywhere. */
static int often(void)
{
	for (int i = 0; i < 1000; i++)
		for (int at = 0; at < sizeof(clocks) / sizeof(*clocks); at++)
			if (clocks[at] != CLOCK_PROCESS_CPUTIME_ID && clocks[at] != CLOCK_THREAD_CPUTIME_ID)
				by_vdso(clocks[at]);
	return 0;
}

static int compared(void)
{
	compare(100);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct promise all[] = {
		{ "tells", tells }, { "disturbed", disturbed }, { "maps", maps }, { "set", set },
		{ "namespace", namespace }, { "compare", compared },
		{ "jumps", jumps }, { "often", often },
	};

	gettime = find("__vdso_clock_gettime");
	return kept(argc, argv, all, sizeof(all) / sizeof(*all));
}

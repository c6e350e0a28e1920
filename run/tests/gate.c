// SPDX-License-Identifier: GPL-2.0-only
/* What must hold of system calls however they reach the kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define MANY 200000

#define CHECK(what) do { \
	if (!(what)) { \
		printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
		fflush(stdout); \
		_exit(1); \
	} \
} while (0)

extern char __executable_start, etext;

/* The two kinds of places that C libraries have, and one that is neither. */
static long by_number(void)
{
	long ret;

	asm volatile("mov $110, %%eax\n syscall" : "=a"(ret)
		     : : "rcx", "r11", "memory");
	return ret;
}

static long by_error(long nr, long a, long b, long c)
{
	long ret;

	asm volatile("syscall\n cmp $-4095, %%rax\n jae 1f\n 1:" : "=a"(ret)
		     : "0"(nr), "D"(a), "S"(b), "d"(c)
		     : "rcx", "r11", "memory", "cc");
	return ret;
}

static long bare(long nr)
{
	long ret;

	asm volatile("syscall\n ret_%=: nop\n" : "=a"(ret) : "0"(nr)
		     : "rcx", "r11", "memory");
	return ret;
}

static void many(void)
{
	long parent = getppid();
	int ends[2];
	char byte = 7;
	struct stat st;

	CHECK(!pipe(ends));
	for (int i = 0; i < MANY; i++) {
		CHECK(by_number() == parent);
		CHECK(by_error(SYS_getppid, 0, 0, 0) == parent);
		CHECK(getppid() == parent);
		if (i % 8)
			continue;
		CHECK(bare(SYS_getppid) == parent);
		CHECK(write(ends[1], &byte, 1) == 1);
		CHECK(read(ends[0], &byte, 1) == 1);
		CHECK(!fstat(ends[0], &st));
		CHECK(by_error(SYS_read, -1, 0, 0) == -EBADF);
		CHECK(by_error(100000, 0, 0, 0) == -ENOSYS);
	}
	puts("many");
}

/* All registers but rax, rcx and r11 around one call of each kind. */
struct registers {
	uint64_t of[16];
	uint64_t flags;
};

#define REGISTERS(name, call) \
__attribute__((noinline)) static void name(struct registers *r) \
{ \
	asm volatile("push %%rbx\n push %%rbp\n push %%rdi\n" \
		     "mov 8(%%rdi), %%rbx\n mov 40(%%rdi), %%rbp\n" \
		     "mov 16(%%rdi), %%rdx\n mov 24(%%rdi), %%rsi\n" \
		     "mov 64(%%rdi), %%r8\n mov 72(%%rdi), %%r9\n" \
		     "mov 80(%%rdi), %%r10\n mov 96(%%rdi), %%r12\n" \
		     "mov 104(%%rdi), %%r13\n mov 112(%%rdi), %%r14\n" \
		     "mov 120(%%rdi), %%r15\n" \
		     "pushq 128(%%rdi)\n popfq\n" \
		     "mov 32(%%rdi), %%rdi\n" \
		     call \
		     "pushfq\n popq %%rcx\n" \
		     "mov (%%rsp), %%r11\n" \
		     "mov %%rcx, 128(%%r11)\n mov %%rax, (%%r11)\n" \
		     "mov %%rbx, 8(%%r11)\n mov %%rbp, 40(%%r11)\n" \
		     "mov %%rdx, 16(%%r11)\n mov %%rsi, 24(%%r11)\n" \
		     "mov %%rdi, 32(%%r11)\n mov %%r8, 64(%%r11)\n" \
		     "mov %%r9, 72(%%r11)\n mov %%r10, 80(%%r11)\n" \
		     "mov %%r12, 96(%%r11)\n mov %%r13, 104(%%r11)\n" \
		     "mov %%r14, 112(%%r11)\n mov %%r15, 120(%%r11)\n" \
		     "pop %%rdi\n pop %%rbp\n pop %%rbx\n" \
		     : : "D"(r) : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", \
		       "r11", "r12", "r13", "r14", "r15", "memory", "cc"); \
}

REGISTERS(registers_by_number, "mov $110, %%eax\n syscall\n")
REGISTERS(registers_by_error, "mov $110, %%rax\n syscall\n lea 0(%%rax), %%rax\n")

static uint64_t state = 88172645463325252ull;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static void registers(void)
{
	/* CF, PF, AF, ZF, SF, OF; what is always set. */
	const uint64_t flags = 0x8d5;

	for (int i = 0; i < MANY / 4; i++) {
		struct registers r, before;

		for (int at = 0; at < 16; at++)
			r.of[at] = next();
		r.flags = (next() & flags) | 2;
		before = r;
		if (i & 1)
			registers_by_number(&r);
		else
			registers_by_error(&r);
		CHECK(r.of[0] == (uint64_t)getppid());
		r.of[0] = before.of[0];
		for (int at = 0; at < 16; at++)
			CHECK(r.of[at] == before.of[at]);
		CHECK((r.flags & flags) == (before.flags & flags));
	}
	puts("registers");
}

static volatile sig_atomic_t alarms;

static void tick(int signal, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	char *rip = (char *)uc->uc_mcontext.gregs[REG_RIP];

	/* Nothing but the program's own code is shown. */
	CHECK(rip >= &__executable_start && rip < &etext);
	alarms++;
	/* Vector registers of a handler's own. */
	asm volatile("pxor %%xmm0, %%xmm0\n pxor %%xmm7, %%xmm7" : : : "xmm0", "xmm7");
	by_error(SYS_getppid, 0, 0, 0);
}

static void vectors(void)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = {};
	struct sigaction action = {
		.sa_sigaction = tick,
		.sa_flags = SA_SIGINFO | SA_RESTART,
	};
	int random = open("/dev/urandom", O_RDONLY);
	char bytes[64];

	CHECK(!sigaction(SIGALRM, &action, NULL));
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (int i = 0; i < MANY || alarms < 50; i++) {
		uint64_t in[2] = { next(), next() }, out[2];

		asm volatile("movdqu %1, %%xmm0\n movdqu %1, %%xmm7\n"
			     "mov $110, %%eax\n syscall\n"
			     "pand %%xmm7, %%xmm0\n movdqu %%xmm0, %0\n"
			     : "=m"(out) : "m"(in)
			     : "rax", "rcx", "r11", "xmm0", "xmm7", "memory");
		CHECK(out[0] == in[0] && out[1] == in[1]);
		if (i % 64 == 0 && random >= 0) {
			asm volatile("movdqu %1, %%xmm0\n movdqu %1, %%xmm7\n"
				     "syscall\n"
				     "pand %%xmm7, %%xmm0\n movdqu %%xmm0, %0\n"
				     : "=m"(out)
				     : "m"(in), "a"(SYS_read), "D"(random),
				       "S"(bytes), "d"(sizeof(bytes))
				     : "rcx", "r11", "xmm0", "xmm7", "memory");
			CHECK(out[0] == in[0] && out[1] == in[1]);
		}
	}
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	puts("vectors");
}

/* Calls that are interrupted start again, or tell so. */
static void restarts(void)
{
	struct sigaction action = {
		.sa_sigaction = tick,
		.sa_flags = SA_SIGINFO | SA_RESTART,
	};
	const struct itimerval soon = { { 0, 2000 }, { 0, 2000 } }, never = {};
	int ends[2];
	char byte;

	CHECK(!pipe(ends));
	for (int restart = 1; restart >= 0; restart--) {
		int before;

		action.sa_flags = SA_SIGINFO | (restart ? SA_RESTART : 0);
		CHECK(!sigaction(SIGALRM, &action, NULL));
		for (int i = 0; i < 50; i++) {
			pid_t child = 0;

			if (restart) {
				child = fork();
				CHECK(child >= 0);
				if (!child) {
					usleep(5000);
					CHECK(write(ends[1], "x", 1) == 1);
					_exit(0);
				}
			}
			before = alarms;
			CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
			long got = by_error(SYS_read, ends[0], (long)&byte, 1);
			CHECK(!setitimer(ITIMER_REAL, &never, NULL));
			if (restart) {
				int status = 1;

				CHECK(got == 1);
				while (waitpid(child, &status, 0) < 0)
					CHECK(errno == EINTR);
				CHECK(status == 0);
			} else {
				CHECK(got == -EINTR);
				CHECK(alarms > before);
			}
		}
	}
	for (int i = 0; i < 20; i++) {
		struct timespec time = { 60, 0 }, left = {};

		CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
		CHECK(nanosleep(&time, &left) == -1 && errno == EINTR);
		CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	}
	puts("restarts");
}

static pthread_barrier_t all;

static void *caller(void *arg)
{
	long parent = (long)arg;

	/* All come to places that nobody has been at, and that change under them. */
	pthread_barrier_wait(&all);
	for (int i = 0; i < MANY / 4; i++) {
		CHECK(by_error(SYS_getppid, 0, 0, 0) == parent);
		CHECK(by_number() == parent);
		if (i % 16 == 0)
			CHECK(bare(SYS_getppid) == parent);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];

	CHECK(!pthread_barrier_init(&all, NULL, 4));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&thread[i], NULL, caller, (void *)(long)getppid()));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(thread[i], NULL));
	puts("threads");
}

/* A child has its parent's code as it is, and goes on changing its own. */
static void forks(void)
{
	for (int i = 0; i < 100; i++)
		by_number();
	for (int i = 0; i < 20; i++) {
		long parent = getpid();
		pid_t child = fork();
		int status;

		CHECK(child >= 0);
		if (!child) {
			for (int j = 0; j < 500; j++) {
				CHECK(by_number() == parent);
				CHECK(by_error(SYS_getppid, 0, 0, 0) == parent);
			}
			_exit(3);
		}
		CHECK(waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	}
	puts("forks");
}

/* Code so far into a file that nobody could read all before it. */
static void far_code(void)
{
	static const unsigned char code[] = {
		0xb8, SYS_getppid, 0, 0, 0,	/* mov $SYS_getppid, %eax */
		0x0f, 0x05, 0xc3,		/* syscall; ret */
	};
	const off_t far = 1ll << 40;
	int fd = memfd_create("far", 0);
	long (*call)(void);

	CHECK(fd >= 0);
	CHECK(pwrite(fd, code, sizeof(code), far) == sizeof(code));
	call = mmap((void *)(far * 2), 4096, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_FIXED_NOREPLACE, fd, far);
	CHECK(call != MAP_FAILED);
	for (int i = 0; i < MANY / 4; i++)
		CHECK(call() == getppid());
	puts("far");
}

/* Nanoseconds a call from a place that nobody has called from yet. */
static void cost_at_first(void)
{
	struct timespec from, to;
	enum { CALLS = 100000 };

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	clock_gettime(CLOCK_MONOTONIC, &to);
	printf("the first %d of syscall() %.1f\n", CALLS,
	       ((to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec) / CALLS);
}

/* Nanoseconds a call, the least of many batches. */
static void cost(void)
{
	struct { const char *name; double least; } rows[] = {
		{ "getppid", 1e9 }, { "write", 1e9 }, { "read", 1e9 },
		{ "fstat", 1e9 }, { "open+close", 1e9 },
	};
	int zero = open("/dev/zero", O_RDWR);
	struct stat st;
	char byte;

	cost_at_first();
	for (int batch = 0; batch < 300; batch++) {
		for (int row = 0; row < 5; row++) {
			struct timespec from, to;
			double ns;

			clock_gettime(CLOCK_MONOTONIC, &from);
			for (int i = 0; i < 1000; i++) {
				switch (row) {
				case 0:
					by_error(SYS_getppid, 0, 0, 0);
					break;
				case 1:
					(void)!write(zero, &byte, 1);
					break;
				case 2:
					(void)!read(zero, &byte, 1);
					break;
				case 3:
					fstat(zero, &st);
					break;
				default:
					close(open("/dev/zero", O_RDONLY));
				}
			}
			clock_gettime(CLOCK_MONOTONIC, &to);
			ns = (to.tv_sec - from.tv_sec) * 1e6 +
			     (to.tv_nsec - from.tv_nsec) / 1e3;
			if (ns < rows[row].least)
				rows[row].least = ns;
		}
	}
	for (int row = 0; row < 5; row++)
		printf("%-12s %8.1f ns\n", rows[row].name, rows[row].least);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } all[] = {
		{ "many", many }, { "registers", registers },
		{ "vectors", vectors }, { "restarts", restarts },
		{ "threads", threads }, { "forks", forks }, { "far", far_code },
		{ "cost", cost },
	};

	for (unsigned int i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (argc == 2 && !strcmp(argv[1], all[i].name)) {
			all[i].run();
			return 0;
		}
	}
	return 2;
}

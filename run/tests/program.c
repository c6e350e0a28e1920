// SPDX-License-Identifier: GPL-2.0-only
/* What ordinary programs do, one thing for each first argument. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(what) \
	do { if (!(what)) { printf("%d: not so: %s: %s\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)

static int hello(int n, char **words)
{
	for (int i = 0; i < n; i++)
		printf("%d %s\n", i, words[i]);
	printf("%s %.3f %d\n", getenv("GREETING") ?: "(none)", 3.14159 * n, getpagesize());
	CHECK(getauxval(AT_PHNUM) > 0 && getauxval(AT_RANDOM));
	return 7;
}

static int memory(void)
{
	static char zeros[1 << 20];
	unsigned char *blocks[64];
	unsigned long sum = 0;

	for (int round = 0; round < 4; round++) {
		for (int i = 0; i < 64; i++) {
			size_t size = 1000 * (i + 1) * (round + 1);

			blocks[i] = malloc(size);
			CHECK(blocks[i]);
			memset(blocks[i], i + round, size);
		}
		for (int i = 0; i < 64; i++) {
			sum += blocks[i][999 * (i + 1)];
			free(blocks[i]);
		}
	}
	for (size_t i = 0; i < sizeof(zeros); i += 512)
		CHECK(!zeros[i]);
	char *p = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	for (size_t i = 0; i < 4 << 20; i += 4096)
		p[i] = i >> 12;
	CHECK(!munmap(p + (1 << 20), 1 << 20));
	CHECK(p[(2 << 20) + 4096] == 1 && p[4096 * 3] == 3);
	p = mremap(p, 1 << 20, 8 << 20, MREMAP_MAYMOVE);
	CHECK(p != MAP_FAILED && p[4096 * 3] == 3 && !p[(8 << 20) - 1]);
	CHECK(!madvise(p, 1 << 20, MADV_DONTNEED) && !p[4096 * 3]);
	printf("%lu\n", sum);
	return 0;
}

static int files(void)
{
	char text[4096];
	struct stat st;
	FILE *f = fopen("/tmp/a file", "w+");

	CHECK(f);
	for (int i = 0; i < 3000; i++)
		fprintf(f, "line %d\n", i);
	rewind(f);
	for (int i = 0; i < 2500; i++)
		CHECK(fgets(text, sizeof(text), f));
	printf("%s", text);
	CHECK(!fstat(fileno(f), &st));
	printf("%ld\n", (long)st.st_size);
	char *p = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
	CHECK(p != MAP_FAILED);
	memcpy(p, "LINE", 4);
	CHECK(pread(fileno(f), text, 4, 0) == 4 && !memcmp(text, "LINE", 4));
	CHECK(pwrite(fileno(f), "Line", 4, 0) == 4 && !memcmp(p, "Line", 4));
	char *q = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(f), 0);
	CHECK(q != MAP_FAILED && !memcmp(q, "Line", 4));
	memcpy(q, "mine", 4);
	CHECK(!memcmp(p, "Line", 4) && !memcmp(q, "mine", 4));
	CHECK(read(77, text, 1) == -1 && errno == EBADF);
	CHECK(write(1, (char *)16, 1) == -1 && errno == EFAULT);
	CHECK(read(fileno(f), q, st.st_size) >= 0);
	unlink("/tmp/a file");
	return 0;
}

static sigjmp_buf back;
static volatile int seen;
static volatile double kept;

static void note(int signal)
{
	double x = signal;

	for (int i = 0; i < 100; i++)
		x = x * 1.5 + i;
	kept = x;
	seen = signal;
}

static void jump(int signal)
{
	siglongjmp(back, signal);
}

static void skip(int signal, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	seen = signal;
	printf("%d %d %d\n", signal, info->si_code, info->si_addr == (void *)0x1234);
	uc->uc_mcontext.gregs[REG_RIP] = uc->uc_mcontext.gregs[REG_RBX];
}

static char other_stack[1 << 16];
static volatile int there;

static void where(int signal)
{
	char here;

	there = &here > other_stack && &here < other_stack + sizeof(other_stack);
}

static int signals(void)
{
	struct sigaction act = { .sa_handler = note };
	stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };
	double x = 1.25, y = 2.5;
	sigset_t set, old;

	CHECK(!sigaction(SIGUSR1, &act, NULL));
	for (int i = 0; i < 1000; i++) {
		x += 0.5;
		seen = 0;
		raise(SIGUSR1);
		CHECK(seen == SIGUSR1);
	}
	printf("%.2f %.2f\n", x, y);

	act.sa_handler = jump;
	CHECK(!sigaction(SIGSEGV, &act, NULL));
	for (int i = 0; i < 3; i++)
		if (!sigsetjmp(back, 1))
			*(volatile int *)16 = 1;
	CHECK(!sigaction(SIGFPE, &act, NULL));
	if (!sigsetjmp(back, 1))
		printf("%d\n", 1 / (seen - SIGUSR1));
	CHECK(!sigaction(SIGILL, &act, NULL));
	if (!sigsetjmp(back, 1))
		__builtin_trap();
	puts("jumped");

	act.sa_handler = (void (*)(int))skip;
	act.sa_flags = SA_SIGINFO;
	CHECK(!sigaction(SIGSEGV, &act, NULL));
	asm volatile("lea 1f(%%rip), %%rbx\n movl $1, 0x1234\n 1:" : : : "rbx", "memory");
	CHECK(seen == SIGSEGV);

	act = (struct sigaction){ .sa_handler = where, .sa_flags = SA_ONSTACK };
	CHECK(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR2, &act, NULL));
	raise(SIGUSR2);
	CHECK(there);

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &set, &old));
	seen = 0;
	raise(SIGUSR1);
	CHECK(!seen);
	CHECK(!sigprocmask(SIG_SETMASK, &old, NULL));
	CHECK(seen == SIGUSR1);

	/* A timer ends a sleep, and interrupts a loop that makes no call. */
	act = (struct sigaction){ .sa_handler = note };
	CHECK(!sigaction(SIGALRM, &act, NULL));
	seen = 0;
	ualarm(20000, 0);
	CHECK(pause() == -1 && errno == EINTR && seen == SIGALRM);
	seen = 0;
	ualarm(20000, 0);
	while (!seen)
		;
	puts("woken");
	/* And a call that restarts. */
	act.sa_flags = SA_RESTART;
	CHECK(!sigaction(SIGALRM, &act, NULL));
	int ends[2];
	CHECK(!pipe(ends));
	struct timespec short_time = { .tv_nsec = 100000000 };
	seen = 0;
	ualarm(20000, 0);
	CHECK(nanosleep(&short_time, NULL) == -1 && errno == EINTR && seen);
	return 0;
}

static int clocks(void)
{
	struct timespec a, b, real;

	CHECK(!clock_gettime(CLOCK_MONOTONIC, &a));
	usleep(2000);
	CHECK(!clock_gettime(CLOCK_MONOTONIC, &b));
	CHECK(!clock_gettime(CLOCK_REALTIME, &real));
	long long ns = (b.tv_sec - a.tv_sec) * 1000000000LL + b.tv_nsec - a.tv_nsec;
	CHECK(ns >= 2000000);
	CHECK(real.tv_sec > 1700000000);
	return 0;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready = PTHREAD_COND_INITIALIZER;
static long counter;
static __thread int own;

static void *work(void *start)
{
	own = (long)start;
	for (int i = 0; i < 1000; i++) {
		pthread_mutex_lock(&lock);
		counter++;
		if (i == 500)
			pthread_cond_broadcast(&ready);
		pthread_mutex_unlock(&lock);
		if (!(i % 100))
			free(malloc(i * 10));
	}
	CHECK(own == (long)start);
	return (void *)(own * 2L);
}

static int threads(void)
{
	pthread_t them[8];
	long sum = 0;
	void *answer;

	for (long i = 0; i < 8; i++)
		CHECK(!pthread_create(&them[i], NULL, work, (void *)i));
	pthread_mutex_lock(&lock);
	while (counter < 500)
		pthread_cond_wait(&ready, &lock);
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < 8; i++) {
		CHECK(!pthread_join(them[i], &answer));
		sum += (long)answer;
	}
	printf("%ld %ld\n", counter, sum);
	return 0;
}

static void *spin(void *start)
{
	for (;;)
		;
}

int main(int argc, char **argv)
{
	const char *what = argv[1] ?: "";

	setvbuf(stdout, NULL, _IOFBF, 4096);
	if (!strcmp(what, "hello"))
		return hello(argc - 2, argv + 2);
	if (!strcmp(what, "memory"))
		return memory();
	if (!strcmp(what, "files"))
		return files();
	if (!strcmp(what, "signals"))
		return signals();
	if (!strcmp(what, "clocks"))
		return clocks();
	if (!strcmp(what, "threads"))
		return threads();
	if (!strcmp(what, "abort"))
		abort();
	if (!strcmp(what, "loop"))
		spin(NULL);
	if (!strcmp(what, "leave-threads")) {
		pthread_t t;

		CHECK(!pthread_create(&t, NULL, spin, NULL));
		puts("left");
		return 3;
	}
	if (!strcmp(what, "exec")) {
		execl(argv[0], argv[0], "hello", "again", NULL);
		return 99;
	}
	if (!strcmp(what, "stdin")) {
		char line[100];
		int n = 0;

		while (fgets(line, sizeof(line), stdin))
			n++;
		printf("%d lines, the last %s", n, line);
		fprintf(stderr, "to errors\n");
		return 0;
	}
	if (!strcmp(what, "many")) {
		for (int i = 0; i < 100000; i++)
			syscall(SYS_getppid);
		return 0;
	}
	return 2;
}

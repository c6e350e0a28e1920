// SPDX-License-Identifier: GPL-2.0-only
/* Memory: maps that change, what is shared with children, faults, threads. */
#define _GNU_SOURCE
#include "random.h"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 24

static sigjmp_buf out;
static volatile int fault_code;
static volatile uintptr_t fault_at;

static void caught(int number, siginfo_t *info, void *context)
{
	(void)context;
	fault_code = info->si_code;
	fault_at = (uintptr_t)info->si_addr;
	siglongjmp(out, number);
}

static void catch_faults(int on)
{
	struct sigaction action = { .sa_flags = SA_SIGINFO };

	if (on)
		action.sa_sigaction = caught;
	else
		action.sa_handler = SIG_DFL;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
}

/* The signal of touching it, and how; 0 for none. */
static int touch(volatile unsigned char *at, int writing)
{
	int number = sigsetjmp(out, 1);

	if (number)
		return number;
	if (writing)
		*at = *at + 1;
	else
		(void)*at;
	return 0;
}

/* What each page of an area is like, in letters. */
static void tell_area(const char *when, unsigned char *area)
{
	char letters[PAGES + 1];
	uint32_t sum = 0;

	for (int page = 0; page < PAGES; page++) {
		unsigned char *at = area + page * PAGE;
		int number = touch(at, 0);

		letters[page] = number == SIGBUS ? 'B' : !number ? 'r' :
				fault_code == SEGV_ACCERR ? '-' : '.';
		if (!number)
			sum = sum * 31 + sum_of(at, PAGE);
	}
	letters[PAGES] = 0;
	tell("%s: %s %08x", when, letters, sum);
}

static void change_area(unsigned char *area)
{
	int from = roll(PAGES), count = 1 + roll(PAGES - from);
	unsigned char *at = area + from * PAGE;
	size_t len = count * PAGE;
	static const int ways[] = { PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE };
	int way = ways[roll(3)];
	void *map;

	switch (roll(7)) {
	case 0:
		tell("mprotect %d %d %d: %s", from, count, way, error_of(mprotect(at, len, way)));
		break;
	case 1:
		tell("munmap %d %d: %s", from, count, error_of(munmap(at, len)));
		break;
	case 2:
		map = mmap(at, len, way, MAP_FIXED | MAP_ANONYMOUS |
			   (roll(2) ? MAP_PRIVATE : MAP_SHARED), -1, 0);
		tell("mmap %d %d %d: %s", from, count, way, map == MAP_FAILED ? error_of(-1) : "ok");
		break;
	case 3:
		tell("dontneed %d %d: %s", from, count, error_of(madvise(at, len, MADV_DONTNEED)));
		break;
	case 4:
		map = mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + roll(PAGES) * PAGE);
		tell("mremap %d: %s", from, map == MAP_FAILED ? error_of(-1) : "ok");
		break;
	default:
		for (int page = from; page < from + count; page++) {
			int number = touch(area + page * PAGE + roll(PAGE), 1);

			if (number && fault_at / PAGE != (uintptr_t)area / PAGE + page)
				tell("page %d: the fault is elsewhere", page);
		}
		tell("written to %d %d", from, count);
	}
}

void do_memory(void)
{
	unsigned char *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	must(area != MAP_FAILED, "mmap");
	catch_faults(1);
	fill(area, PAGES * PAGE / 2);
	for (int n = 3 + roll(10); n; n--)
		change_area(area);
	tell_area("before", area);
	child = fork();
	must(child >= 0, "fork");
	if (!child) {
		for (int n = 3 + roll(10); n; n--)
			change_area(area);
		tell_area("child", area);
		_exit(roll(100));
	}
	tell_end("child", child);
	/* What is private is as it was. */
	tell_area("after", area);
	munmap(area, PAGES * PAGE);
	catch_faults(0);
}

void do_shared_memory(void)
{
	struct shared {
		pthread_mutex_t lock;
		pthread_cond_t changed;
		int turn, sum;
	} *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t of_lock;
	pthread_condattr_t of_cond;
	int count = 1 + roll(4), rounds = 1 + roll(30);
	pid_t children[4];

	must(shared != MAP_FAILED, "mmap");
	pthread_mutexattr_init(&of_lock);
	pthread_mutexattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->lock, &of_lock);
	pthread_condattr_init(&of_cond);
	pthread_condattr_setpshared(&of_cond, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&shared->changed, &of_cond);
	for (int i = 0; i < count; i++) {
		children[i] = fork();
		must(children[i] >= 0, "fork");
		if (children[i])
			continue;
		/* They take turns. */
		pthread_mutex_lock(&shared->lock);
		for (int round = 0; round < rounds; round++) {
			while (shared->turn % count != i)
				pthread_cond_wait(&shared->changed, &shared->lock);
			shared->sum = shared->sum * 3 + i;
			shared->turn++;
			pthread_cond_broadcast(&shared->changed);
		}
		pthread_mutex_unlock(&shared->lock);
		_exit(i);
	}
	for (int i = 0; i < count; i++)
		tell_end("player", children[i]);
	tell("%d turns, %08x", shared->turn, shared->sum);
	munmap(shared, PAGE);
}

static int deeper(int n)
{
	volatile char frame[1000];

	frame[0] = n;
	return n < 1 << 30 ? deeper(n + 1) + frame[0] : 0;
}

/* Faults of many kinds, each the end of a child or caught. */
void do_faults(void)
{
	static char other_stack[65536];
	stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof(other_stack) };
	int which = roll(6), catching = roll(2);
	pid_t child = fork();
	volatile int zero = 0;

	must(child >= 0, "fork");
	if (child) {
		tell_end("faulty", child);
		return;
	}
	if (catching) {
		struct sigaction action = { .sa_flags = SA_SIGINFO | SA_ONSTACK,
					    .sa_sigaction = caught };

		sigaltstack(&stack, NULL);
		for (int number = SIGILL; number <= SIGSEGV; number++)
			if (number != SIGKILL && number != SIGABRT)
				sigaction(number, &action, NULL);
	}
	int number = sigsetjmp(out, 1);

	if (number) {
		tell("fault %d: signal %d, code %d", which, number, fault_code);
		_exit(number);
	}
	switch (which) {
	case 0: *(volatile char *)16 = 1; break;
	case 1: tell("%d", 1 / zero); break;
	case 2: __asm__ volatile("ud2"); break;
	case 3: __asm__ volatile("int3"); break;
	case 4: tell("%d", deeper(0)); break;
	case 5: ((void (*)(void))other_stack)(); break;
	}
	_exit(50);
}

static pthread_mutex_t count_lock = PTHREAD_MUTEX_INITIALIZER;
static long counted;
static __thread int own;

static void *counts(void *argument)
{
	int to = *(int *)argument;
	double sum = 0;

	for (own = 0; own < to; own++) {
		sum += own / 3.0;
		pthread_mutex_lock(&count_lock);
		counted++;
		pthread_mutex_unlock(&count_lock);
	}
	return (void *)(intptr_t)(sum * 8 + own);
}

void do_threads(void)
{
	int count = 1 + roll(5), to[5];
	pthread_t threads[5];
	void *result;

	counted = 0;
	for (int i = 0; i < count; i++) {
		to[i] = 1 + roll(2000);
		must(!pthread_create(&threads[i], NULL, counts, &to[i]), "pthread_create");
	}
	if (roll(2)) {
		/* A child has only the thread that forked. */
		pid_t child = fork();

		must(child >= 0, "fork");
		if (!child)
			_exit(own + 7);
		tell_end("beside threads", child);
	}
	for (int i = 0; i < count; i++) {
		pthread_join(threads[i], &result);
		tell("thread %d: %ld", i, (long)(intptr_t)result);
	}
	tell("counted %ld", counted);
}

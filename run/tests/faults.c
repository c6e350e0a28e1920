// SPDX-License-Identifier: GPL-2.0-only
/* Programs that ask for trouble: faults, odd flags, signals at any moment. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

#define CHECK(what) \
	do { if (!(what)) { printf("%d: not so: %s: %s\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)

#define TF	0x100
#define DF	0x400
#define NT	0x4000
#define AC	0x40000
#define ID	0x200000

static volatile long signals, last_signal, last_code, last_address, last_flags;

/* Goes on where rbx says. Does nothing that AC or NT forbid. */
static void skip(int signal, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	signals++;
	last_signal = signal;
	last_code = info->si_code;
	last_address = (long)info->si_addr;
	last_flags = uc->uc_mcontext.gregs[REG_EFL];
	uc->uc_mcontext.gregs[REG_RIP] = uc->uc_mcontext.gregs[REG_RBX];
}

/* Steps: counts, up to the end of what is stepped through. */
static void step(int signal, siginfo_t *info, void *context)
{
	signals++;
	last_code = info->si_code;
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	CHECK(!sigaction(signal, &act, NULL));
}

#define KEPT (TF | DF | NT | AC | ID)

/* The flags after a call that was made with these, besides. */
static long after_call(long with, long nr)
{
	long after;

	asm volatile("lea -128(%%rsp), %%rsp\n"
		     "pushfq\n orq %2, (%%rsp)\n popfq\n"
		     "syscall\n"
		     "pushfq\n popq %0\n"
		     "pushq $0x202\n popfq\n"
		     "lea 128(%%rsp), %%rsp\n"
		     : "=&r" (after), "+a" (nr) : "r" (with), "D" (-1)
		     : "rcx", "r11", "memory", "cc");
	return after & KEPT;
}

/* The flags that the handler of an invalid instruction sees, and those after it. */
static long after_fault(long with)
{
	long after;

	asm volatile("lea -128(%%rsp), %%rsp\n"
		     "pushfq\n orq %1, (%%rsp)\n"
		     "lea 1f(%%rip), %%rbx\n"
		     "popfq\n"
		     "ud2\n"
		     "1: pushfq\n popq %0\n"
		     "pushq $0x202\n popfq\n"
		     "lea 128(%%rsp), %%rsp\n"
		     : "=&r" (after) : "r" (with) : "rbx", "memory", "cc");
	return after & KEPT;
}

static int flags(void)
{
	static const long sets[] = { 0, NT, AC, DF, ID, NT | AC, NT | AC | DF | ID };

	handle(SIGILL, skip, 0);
	for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
		for (int round = 0; round < 100; round++) {
			CHECK(after_call(sets[i], SYS_getppid) == sets[i]);
			CHECK(after_call(sets[i], SYS_close) == sets[i]);
			CHECK(after_call(sets[i], 100000) == sets[i]);
		}
		CHECK(after_fault(sets[i]) == sets[i]);
		printf("%lx: %ld %lx\n", sets[i], last_signal, last_flags & KEPT);
	}
	handle(SIGTRAP, step, 0);
	signals = 0;
	asm volatile("lea -128(%%rsp), %%rsp\n"
		     "pushfq\n orq $0x100, (%%rsp)\n popfq\n"
		     "nop\n nop\n nop\n"
		     "pushq $0x202\n popfq\n"
		     "lea 128(%%rsp), %%rsp\n" : : : "memory", "cc");
	printf("%ld steps, code %ld\n", signals, last_code);
	signals = 0;
	after_call(TF, SYS_getppid);
	CHECK(signals > 0);
	return 0;
}

/* With AC an access that is not aligned is a fault of its own kind. */
static int unaligned(void)
{
	static char bytes[64];
	long before;

	handle(SIGBUS, skip, 0);
	asm volatile("lea -128(%%rsp), %%rsp\n"
		     "lea 1f(%%rip), %%rbx\n"
		     "pushfq\n popq %0\n"
		     "pushq %0\n orq $0x40000, (%%rsp)\n popfq\n"
		     "movq 1(%1), %%rax\n"
		     "1: pushq %0\n popfq\n"
		     "lea 128(%%rsp), %%rsp\n"
		     : "=&r" (before) : "r" (bytes) : "rax", "rbx", "memory", "cc");
	printf("%ld %ld %lx\n", last_signal, last_code, last_address);
	CHECK(signals == 1);
	return 0;
}

static void touch(const char *what, char *base, long offset, int write)
{
	signals = 0;
	if (write)
		asm volatile("lea 1f(%%rip), %%rbx\n movb $7, (%0)\n 1:"
			     : : "r" (base + offset) : "rbx", "memory");
	else
		asm volatile("lea 1f(%%rip), %%rbx\n movb (%0), %%al\n 1:"
			     : : "r" (base + offset) : "rbx", "rax", "memory");
	if (signals)
		printf("%s %lx: signal %ld, code %ld, at %lx\n", what, offset,
		       last_signal, last_code, last_address - (long)base);
	else
		printf("%s %lx: fine\n", what, offset);
}

/* A mapping is longer than its file. */
static int beyond(void)
{
	const int kinds[] = { MAP_SHARED, MAP_PRIVATE };
	int fd = open("/tmp/short", O_RDWR | O_CREAT | O_TRUNC, 0600);

	handle(SIGBUS, skip, 0);
	handle(SIGSEGV, skip, 0);
	for (int i = 0; i < 2; i++) {
		CHECK(fd >= 0 && !ftruncate(fd, 5000));
		char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, kinds[i], fd, 0);

		CHECK(p != MAP_FAILED);
		for (int write = 0; write < 2; write++) {
			touch("touch", p, 100, write);
			touch("touch", p, 8191, write);
			touch("touch", p, 8192, write);
			touch("touch", p, 8192 + 5, write);
			touch("touch", p, 300000, write);
		}
		CHECK(read(0, p + 100000, 1) == 0);
		CHECK(write(1, p + 8192, 1) == -1 && errno == EFAULT);
		CHECK(pread(fd, p + 8192, 1, 0) == -1 && errno == EFAULT);
		CHECK(!ftruncate(fd, 1000));
		touch("cut", p, 100, 0);
		touch("cut", p, 4096, 1);
		CHECK(!ftruncate(fd, 20000));
		touch("grown", p, 4096, 1);
		touch("grown", p, 20480, 0);
		CHECK(!mprotect(p, 4096, PROT_READ));
		touch("protected", p, 8, 1);
		CHECK(!munmap(p, 1 << 20));
		touch("gone", p, 8, 0);
	}
	unlink("/tmp/short");
	return 0;
}

static char other_stack[1 << 16], third_stack[1 << 16];
static stack_t inside, given;

static void on_stack(int signal)
{
	stack_t now;
	char here;

	CHECK(!sigaltstack(NULL, &now));
	inside = now;
	printf("on it: %d, flags %x\n", &here > other_stack && &here < other_stack + sizeof(other_stack),
	       now.ss_flags);
	if (given.ss_size) {
		int answer = sigaltstack(&given, NULL);

		printf("another: %d %d\n", answer, answer ? errno : 0);
	}
	if (signal == SIGUSR1)
		raise(SIGUSR2);
}

static int stacks(void)
{
	static const unsigned int modes[] = { 0, SS_AUTODISARM };
	struct sigaction act = { .sa_handler = on_stack, .sa_flags = SA_ONSTACK };
	stack_t now;

	CHECK(!sigaction(SIGUSR1, &act, NULL) && !sigaction(SIGUSR2, &act, NULL));
	for (int i = 0; i < 2; i++) {
		for (int change = 0; change < 2; change++) {
			stack_t stack = { .ss_sp = other_stack, .ss_size = sizeof(other_stack),
					  .ss_flags = modes[i] };

			given = (stack_t){ .ss_sp = third_stack, .ss_size = sizeof(third_stack) };
			if (!change)
				given.ss_size = 0;
			CHECK(!sigaltstack(&stack, NULL));
			raise(SIGUSR1);
			CHECK(!sigaltstack(NULL, &now));
			printf("%x %d: flags %x, %d, %zu\n", modes[i], change, now.ss_flags,
			       now.ss_sp == other_stack, now.ss_size);
		}
	}
	return 0;
}

static volatile long asked, seen;
static pthread_t worker;

static void note(int signal)
{
	seen++;
}

/* Computes until a handler has run, and calls: wherever that is, the signal comes. */
static void *compute(void *rounds)
{
	for (long i = 1; i <= (long)rounds; i++) {
		for (int call = 0; call < i % 5; call++)
			syscall(SYS_getppid);
		__atomic_store_n(&asked, i, __ATOMIC_SEQ_CST);
		for (int call = 0; call < i % 7; call++)
			syscall(i % 2 ? SYS_sched_yield : SYS_getppid);
		while (__atomic_load_n(&seen, __ATOMIC_SEQ_CST) < i)
			;
	}
	return NULL;
}

static int every_moment(long rounds)
{
	struct sigaction act = { .sa_handler = note, .sa_flags = SA_RESTART };

	CHECK(!sigaction(SIGUSR1, &act, NULL));
	CHECK(!pthread_create(&worker, NULL, compute, (void *)rounds));
	for (long i = 1; i <= rounds; i++) {
		while (__atomic_load_n(&asked, __ATOMIC_SEQ_CST) < i)
			syscall(SYS_sched_yield);
		CHECK(!pthread_kill(worker, SIGUSR1));
	}
	CHECK(!pthread_join(worker, NULL));
	printf("%ld\n", seen);
	return 0;
}

enum { PAGE = 4096, PAGES = 1024 };

static size_t resident(char *at, size_t pages)
{
	static unsigned char is_in[PAGES];
	size_t sum = 0;

	CHECK(!mincore(at, pages * PAGE, is_in));
	for (size_t i = 0; i < pages; i++)
		sum += is_in[i] & 1;
	return sum;
}

static char *new_memory(int flags)
{
	char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	CHECK(at != MAP_FAILED);
	/* Pages of this size on every host. */
	madvise(at, PAGES * PAGE, MADV_NOHUGEPAGE);
	CHECK(!resident(at, PAGES));
	return at;
}

/* New memory in an order: what is there, and what a page holds before it is touched. */
static int touched(void)
{
	char *row = new_memory(0), *steps = new_memory(0), *back = new_memory(0);
	char *edge = new_memory(0);
	size_t i, got;

	for (i = 0; i < PAGES; i++) {
		CHECK(!row[i * PAGE + i]);
		row[i * PAGE] = 1;
		got = resident(row, PAGES);
		CHECK(got > i && got <= 2 * (i + 1));
	}
	for (i = 0; i < PAGES; i += 2)
		steps[i * PAGE] = 1;
	CHECK(resident(steps, PAGES) == PAGES / 2);
	for (i = PAGES; i-- > PAGES / 2;)
		back[i * PAGE] = 1;
	CHECK(resident(back, PAGES) == PAGES / 2);
	/* Nothing beyond the end of what is mapped, or may be written. */
	CHECK(!mprotect(edge + 40 * PAGE, PAGE, PROT_READ));
	CHECK(!munmap(edge + 60 * PAGE, PAGE));
	for (i = 0; i < 40; i++)
		edge[i * PAGE] = 1;
	for (i = 41; i < 60; i++)
		edge[i * PAGE] = 1;
	CHECK(!resident(edge + 40 * PAGE, 1) && !resident(edge + 61 * PAGE, 100));
	CHECK(resident(edge, 40) == 40 && resident(edge + 41 * PAGE, 19) == 19);
	/* What a child has touched is its own. */
	if (!fork()) {
		for (i = 0; i < PAGES; i++)
			row[i * PAGE] = back[i * PAGE] = 2;
		_exit(0);
	}
	CHECK(wait(NULL) > 0);
	for (i = 0; i < PAGES; i++)
		CHECK(row[i * PAGE] == 1 && back[i * PAGE] == (i >= PAGES / 2));
	puts("touched");
	return 0;
}

/* A buffer, touched in a row. */
static int row(void)
{
	char *at = new_memory(0);

	for (size_t i = 0; i < PAGES; i++)
		at[i * PAGE] = 1;
	puts("row");
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argv[1] ?: "";

	setvbuf(stdout, NULL, _IOFBF, 4096);
	if (!strcmp(what, "flags"))
		return flags();
	if (!strcmp(what, "unaligned"))
		return unaligned();
	if (!strcmp(what, "beyond"))
		return beyond();
	if (!strcmp(what, "stacks"))
		return stacks();
	if (!strcmp(what, "touched"))
		return touched();
	if (!strcmp(what, "row"))
		return row();
	if (!strcmp(what, "every-moment"))
		return every_moment(atol(argv[2]));
	if (!strcmp(what, "loop")) {
		puts("going");
		fflush(stdout);
		for (;;)
			;
	}
	return 2;
}

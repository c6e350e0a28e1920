// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes calls of the host's: finds the byte that has the host's kernel send this
 * thread's system calls to the Linux beside it, and clears that.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a host thread's block: host/src/run_block.rs. */
#define MAGIC 0x6d6172676f727074ull
#define NEAR (1l << 20)

static sigjmp_buf out;
static char page[8192] __attribute__((aligned(4096)));

static void caught(int signal)
{
	siglongjmp(out, signal);
}

static int reads(const volatile void *at, uint64_t *word)
{
	if (sigsetjmp(out, 1))
		return 0;
	*word = *(const volatile uint64_t *)at;
	return 1;
}

static long call(long nr, long a, long b, long c)
{
	long ret;

	asm volatile("syscall" : "=a"(ret) : "0"(nr), "D"(a), "S"(b), "d"(c)
		     : "rcx", "r11", "memory");
	return ret;
}

/* What stands behind the magic number that this thread's block begins with. */
static uint64_t *find_block(void)
{
	uint64_t gs, word, magic;

	asm volatile("rdgsbase %0" : "=r"(gs));
	gs &= ~4095ull;
	for (long at = -NEAR; at < NEAR; at += 8) {
		uint64_t from = gs + at;

		if (!reads((void *)from, &word)) {
			at |= 4088;
			continue;
		}
		if (word >> 40 < 0x7e || word % 8 || word >> 47)
			continue;
		if (reads((void *)word, &magic) && magic == MAGIC)
			return (uint64_t *)word + 1;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	volatile unsigned char *selector;
	uint64_t *block;

	page[0] = 1;
	signal(SIGSEGV, caught);
	signal(SIGBUS, caught);
	block = find_block();
	if (!block) {
		puts("no block");
		return 1;
	}
	/* Behind the guest's address and two words of the host's. No page may be touched
	 * for the first time while it is clear: nobody would show it.
	 */
	selector = (volatile unsigned char *)(block + 3);
	*selector = 0;
	long outside = call(SYS_getpid, 0, 0, 0);
	long file = call(SYS_open, (long)argv[1], 0, 0);
	long code = call(SYS_mprotect, (long)page, 4096, 5);
	/* Of standard error, which whoever has started all this has open, too. */
	long flags = call(SYS_fcntl, 2, F_SETFL, 0);
	*selector = 1;
	printf("pid %ld\nopen %ld\nmprotect %ld\nflags %ld\n", outside, file, code, flags);
	fflush(stdout);
	/* Until all of that has come out. */
	getchar();
	*selector = 0;
	call(SYS_socket, 2, 1, 0);
	*selector = 1;
	puts("alive");
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * What signal frames say of where the program is, and what C libraries do with it. Run
 * as it is and with rewritten calls; prints the same.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static struct { unsigned long start, end; } code[64];
static int codes;
static volatile int signals, strangers, restarts;

/* Code of files, as the program itself would see it. */
static void read_maps(void)
{
	char line[512], mode[8], path[256];
	FILE *maps = fopen("/proc/self/maps", "r");

	while (fgets(line, sizeof(line), maps) && codes < 64) {
		path[0] = 0;
		sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &code[codes].start,
		       &code[codes].end, mode, path);
		if (mode[2] == 'x' && path[0])
			codes++;
	}
	fclose(maps);
}

static void handler(int signal, siginfo_t *info, void *context)
{
	unsigned long rip = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	int known = 0;

	for (int i = 0; i < codes; i++)
		known |= code[i].start <= rip && rip < code[i].end;
	strangers += !known;
	signals++;
	getppid();
}

static void *blocked(void *descriptor)
{
	char byte;

	pthread_cleanup_push(free, malloc(1));
	for (;;)
		if (read(*(int *)descriptor, &byte, 1) < 0)
			abort();
	pthread_cleanup_pop(1);
	return NULL;
}

static volatile int cleaned;

static void clean(void *unused)
{
	cleaned++;
}

static void *busy(void *descriptor)
{
	char byte = 0;

	pthread_cleanup_push(clean, NULL);
	for (;;)	/* often in a call and as often not */
		if (write(((int *)descriptor)[1], &byte, 1) != 1 ||
		    read(*(int *)descriptor, &byte, 1) != 1)
			abort();
	pthread_cleanup_pop(1);
	return NULL;
}

static sigjmp_buf out;

static void jump(int signal)
{
	siglongjmp(out, 1);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = handler };
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { 0 };
	int canceled = 0, ends[2], pair[2], status;
	char byte;
	void *result;

	read_maps();
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (signals < 300) {
		getuid();
		syscall(SYS_gettid);
		usleep(1);
	}
	setitimer(ITIMER_REAL, &never, NULL);
	printf("strangers %d\n", strangers);

	/* Interrupted, and restarted. */
	pipe(ends);
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGALRM, &action, NULL);
	often.it_interval.tv_usec = often.it_value.tv_usec = 20000;
	setitimer(ITIMER_REAL, &often, NULL);
	status = read(ends[0], &byte, 1);
	printf("interrupted %d\n", status == -1 && errno == EINTR);
	setitimer(ITIMER_REAL, &never, NULL);
	often.it_interval.tv_usec = 0;
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	sigaction(SIGALRM, &action, NULL);
	if (!fork()) {
		usleep(100000);
		write(ends[1], "r", 1);
		_exit(5);
	}
	setitimer(ITIMER_REAL, &often, NULL);
	status = read(ends[0], &byte, 1);
	printf("restarted %d %c\n", status, byte);
	wait(&status);
	printf("child %d\n", WEXITSTATUS(status));

	/* Out of a call by a jump, again and again. */
	signal(SIGALRM, jump);
	for (volatile int i = 0; i < 200; i++) {
		often.it_value.tv_usec = 200;
		if (!sigsetjmp(out, 1)) {
			setitimer(ITIMER_REAL, &often, NULL);
			for (;;)
				read(ends[0], &byte, 1);
		}
	}
	printf("jumped\n");

	for (int i = 0; i < 100; i++) {
		pthread_t thread;

		pipe(pair);
		if (pthread_create(&thread, NULL, i % 2 ? busy : blocked, pair))
			return 1;
		usleep(i * 20);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		canceled += result == PTHREAD_CANCELED;
		close(pair[0]);
		close(pair[1]);
	}
	printf("canceled %d cleaned %d\n", canceled, cleaned);
	return 0;
}

/* What programs that try processes share. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
	((what) ? (void)0 : (printf("line %d: %s: %s\n", __LINE__, #what, \
				    strerror(errno)), exit(1)))

static char *self;

/* What a program tries, by its first argument; 2 if it does not know it. */
struct promise {
	const char *name;
	int (*does)(void);
};

static inline int kept(int argc, char **argv, const struct promise *all, int count)
{
	self = argv[0];
	for (int i = 0; i < count; i++)
		if (argc > 1 && !strcmp(argv[1], all[i].name))
			return all[i].does();
	return 2;
}

static int wait_for(int pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static inline double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

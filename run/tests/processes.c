/* What programs do with processes; the same on any Linux. One word says what. */
#include "process.h"
#include "orphans.h"

static char page[1 << 20];

/* Each has its own copy of all kinds of memory, from the moment of the fork. */
static int copies(void)
{
	char *heap = malloc(1 << 20), stack[8192];
	char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(shared != MAP_FAILED);
	memset(heap, 1, 1 << 20);
	memset(page, 2, sizeof(page));
	memset(stack, 3, sizeof(stack));
	for (int round = 0; round < 20; round++) {
		int pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			for (int i = 0; i < 1 << 20; i += 1000) {
				CHECK(heap[i] == 1 + round && page[i] == 2);
				heap[i] = page[i] = 77;
			}
			CHECK(stack[4000] == 3);
			memset(stack, 78, sizeof(stack));
			shared[0]++;
			_exit(heap[5000] == 77 ? round : 99);
		}
		/* The parent writes while the child reads. */
		for (int i = 0; i < 1 << 20; i++)
			heap[i]++;
		CHECK(WEXITSTATUS(wait_for(pid)) == round);
		for (int i = 0; i < 1 << 20; i += 1000)
			CHECK(heap[i] == 2 + round && page[i] == 2);
		CHECK(stack[4000] == 3);
	}
	printf("%d rounds\n", shared[0]);
	return 0;
}

static int pipes(void)
{
	int there[2], back[2], pid;
	unsigned long sum = 0, n = 0;
	static unsigned char block[5000];
	char c = 0;

	CHECK(!pipe(there) && !pipe(back));
	pid = fork();
	if (!pid) {
		for (int i = 0; i < 400; i++) {
			memset(block, i, sizeof(block));
			CHECK(write(there[1], block, sizeof(block)) == sizeof(block));
		}
		_exit(0);
	}
	close(there[1]);
	for (long got; (got = read(there[0], block, sizeof(block))) > 0; n += got)
		for (long i = 0; i < got; i++)
			sum += block[i];
	CHECK(!wait_for(pid) && !pipe(there));
	printf("%lu bytes, %lu\n", n, sum);
	pid = fork();
	for (int i = 0; i < 300; i++) {
		if (pid)
			CHECK(write(there[1], &c, 1) == 1 && read(back[0], &c, 1) == 1);
		else
			CHECK(read(there[0], &c, 1) == 1 && (c++, write(back[1], &c, 1) == 1));
	}
	if (!pid)
		_exit(c);
	printf("%d\n", WEXITSTATUS(wait_for(pid)) == (unsigned char)c);
	return 0;
}

static int spawns(void)
{
	char *words[] = { self, "exit", "5", NULL }, *none[] = { NULL };
	posix_spawn_file_actions_t actions;
	volatile int borrowed = 0;
	char text[100] = "";
	int fds[2], pid;

	pid = vfork();
	if (!pid) {
		borrowed = 1;
		execve(self, words, none);
		_exit(99);
	}
	printf("vfork %d %d\n", borrowed, WEXITSTATUS(wait_for(pid)));
	pid = vfork();
	if (!pid) {
		borrowed = 2;
		_exit(3);
	}
	printf("vfork %d %d\n", borrowed, WEXITSTATUS(wait_for(pid)));
	pid = vfork();
	if (!pid) {
		execve("/no/such", words, none);
		borrowed = errno;
		_exit(4);
	}
	printf("vfork %d %d\n", borrowed == ENOENT, WEXITSTATUS(wait_for(pid)));
	CHECK(!posix_spawn(&pid, self, NULL, NULL, words, none));
	printf("spawn %d\n", WEXITSTATUS(wait_for(pid)));
	printf("spawn %s\n", strerror(posix_spawn(&pid, "/no/such", NULL, NULL, words, none)));
	CHECK(!pipe(fds) && !posix_spawn_file_actions_init(&actions));
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	words[1] = "say";
	words[2] = "hello";
	CHECK(!posix_spawn(&pid, self, &actions, NULL, words, none));
	wait_for(pid);
	CHECK(read(fds[0], text, sizeof(text)) > 0);
	printf("%s", text);
	return 0;
}

static volatile int caught;

static void catch(int signal, siginfo_t *info, void *context)
{
	(void)context;
	caught += signal == SIGUSR1 ? 100 : info->si_code == CLD_EXITED ? 1 : 10;
}

static int signals(void)
{
	struct sigaction action = { .sa_sigaction = catch, .sa_flags = SA_SIGINFO | SA_RESTART };
	sigset_t some, none;
	int parent = getpid(), pid, status;

	sigemptyset(&none);
	sigemptyset(&some);
	sigaddset(&some, SIGUSR1);
	sigaddset(&some, SIGCHLD);
	CHECK(!sigaction(SIGUSR1, &action, NULL) && !sigaction(SIGCHLD, &action, NULL));
	sigprocmask(SIG_BLOCK, &some, NULL);
	for (int signal = 0; signal < 3; signal++) {
		int which = (int[]){ SIGKILL, SIGTERM, SIGSEGV }[signal];

		pid = fork();
		if (!pid)
			for (;;)
				if (which == SIGSEGV)
					*(volatile int *)8 = 1;
		if (which != SIGSEGV)
			kill(pid, which);
		sigsuspend(&none);
		status = wait_for(pid);
		printf("%d %d\n", WTERMSIG(status) == which, caught);
	}
	/* A child that computes is told, and tells. */
	caught = 0;
	pid = fork();
	if (!pid) {
		sigprocmask(SIG_SETMASK, &none, NULL);
		kill(parent, SIGUSR1);
		while (!caught)
			;
		_exit(caught);
	}
	while (caught < 100)
		sigsuspend(&none);
	kill(pid, SIGUSR1);
	printf("told %d\n", WEXITSTATUS(wait_for(pid)));
	pid = fork();
	if (!pid) {
		raise(SIGSTOP);
		_exit(6);
	}
	CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
	kill(pid, SIGCONT);
	printf("went on %d\n", WEXITSTATUS(wait_for(pid)));
	CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
	return 0;
}

struct common {
	pthread_mutex_t lock;
	pthread_barrier_t barrier;
	long count;
	volatile long each[4];
	volatile int go_on;
};

static struct common *common(int together)
{
	struct common *c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t lock;
	pthread_barrierattr_t barrier;

	CHECK(c != MAP_FAILED);
	pthread_mutexattr_init(&lock);
	pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&c->lock, &lock);
	pthread_barrierattr_init(&barrier);
	pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&c->barrier, &barrier, together);
	return c;
}

/* Locks of several processes, in memory of all. */
static int locks(void)
{
	struct common *c = common(4);
	int pids[4];

	for (int n = 0; n < 4; n++) {
		pids[n] = fork();
		if (pids[n])
			continue;
		pthread_barrier_wait(&c->barrier);
		for (int i = 0; i < 200; i++) {
			pthread_mutex_lock(&c->lock);
			long before = c->count;

			if (i % 50 == 0)
				sched_yield();
			c->count = before + 1;
			pthread_mutex_unlock(&c->lock);
		}
		_exit(0);
	}
	for (int n = 0; n < 4; n++)
		CHECK(!wait_for(pids[n]));
	printf("%ld\n", c->count);
	return 0;
}

/* Those that compute all get on, and so does one that asks the kernel all the time. */
static int turns(void)
{
	struct common *c = common(1);
	int pids[4], all;

	c->go_on = 1;
	for (int n = 0; n < 4; n++) {
		pids[n] = fork();
		if (pids[n])
			continue;
		while (c->go_on) {
			c->each[n]++;
			if (n == 3)
				getppid();
		}
		_exit(0);
	}
	do {
		usleep(1000);
		all = 1;
		for (int n = 0; n < 4; n++)
			all &= c->each[n] > 1000;
	} while (!all);
	c->go_on = 0;
	for (int n = 0; n < 4; n++)
		CHECK(!wait_for(pids[n]));
	puts("all");
	return 0;
}

static volatile int stop;

static void *compute(void *counter)
{
	while (!stop)
		(*(volatile long *)counter)++;
	return NULL;
}

/* A process of several threads that compute forks, spawns and goes on. */
static int threads(void)
{
	char *words[] = { self, "exit", "5", NULL }, *none[] = { NULL };
	static volatile long counters[3];
	pthread_t t[3];
	int pid;

	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&t[i], NULL, compute, (void *)&counters[i]));
	for (int round = 0; round < 5; round++) {
		long before[3];

		pid = fork();
		if (!pid) {
			/* Its copies of the other threads are none. */
			long then = counters[0];

			for (volatile int i = 0; i < 100000; i++)
				;
			_exit(then == counters[0] ? 7 : 8);
		}
		CHECK(WEXITSTATUS(wait_for(pid)) == 7);
		CHECK(!posix_spawn(&pid, self, NULL, NULL, words, none));
		CHECK(WEXITSTATUS(wait_for(pid)) == 5);
		for (int i = 0; i < 3; i++)
			before[i] = counters[i];
		for (int i = 0; i < 3; i++)
			while (counters[i] == before[i])
				sched_yield();
	}
	stop = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
	pid = fork();
	if (!pid) {
		stop = 0;
		pthread_create(&t[0], NULL, compute, (void *)&counters[0]);
		execve(self, words, none);
	}
	printf("%d\n", WEXITSTATUS(wait_for(pid)));
	return 0;
}

/* Many at a time, that are then killed as a group. */
static int many(void)
{
	int fds[2], group = 0, ended = 0, status;
	char c;

	CHECK(!pipe(fds));
	for (int i = 0; i < 100; i++) {
		int pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			setpgid(0, group);
			CHECK(write(fds[1], "", 1) == 1);
			for (;;)
				pause();
		}
		group = group ?: pid;
		setpgid(pid, group);
	}
	for (int i = 0; i < 100; i++)
		CHECK(read(fds[0], &c, 1) == 1);
	CHECK(!kill(-group, SIGKILL));
	while (wait(&status) > 0)
		ended += WIFSIGNALED(status);
	printf("%d\n", ended);
	return 0;
}

static double seconds(struct timeval time)
{
	return time.tv_sec + time.tv_usec / 1e6;
}

/* The time that a program computes is its own, and no more than has passed. */
static int times_of(void)
{
	double wall = now_us(), used;
	struct rusage usage;
	struct tms now;
	int pid = fork(), status;

	if (!pid) {
		do
			for (volatile int i = 0; i < 1 << 20; i++)
				;
		while (times(&now) == -1 || now.tms_utime + now.tms_stime < 20);
		_exit(0);
	}
	CHECK(wait4(pid, &status, 0, &usage) == pid && !status);
	wall = (now_us() - wall) / 1e6;
	used = seconds(usage.ru_utime) + seconds(usage.ru_stime);
	CHECK(used > 0.15);
	CHECK(used < wall + 0.1);
	CHECK(seconds(usage.ru_utime) > seconds(usage.ru_stime));
	CHECK(times(&now) != -1 && now.tms_cutime + now.tms_cstime >= 15);
	puts("all told");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct promise all[] = {
		{ "copies", copies }, { "pipes", pipes }, { "spawns", spawns },
		{ "signals", signals }, { "locks", locks }, { "turns", turns },
		{ "threads", threads }, { "many", many }, { "times", times_of },
		{ "orphan", orphan }, { "orphans", orphans }, { "wait", wait_all },
		{ "leave", leave },
	};

	setvbuf(stdout, NULL, _IONBF, 0);
	/* Whom it executes. */
	if (argc > 2 && !strcmp(argv[1], "exit"))
		return atoi(argv[2]);
	if (argc > 2 && !strcmp(argv[1], "say"))
		return puts(argv[2]) < 0;
	return kept(argc, argv, all, sizeof(all) / sizeof(*all));
}

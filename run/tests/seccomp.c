// SPDX-License-Identifier: GPL-2.0-only
/*
 * Filters of system calls, one promise for each first argument. What is printed is the
 * same on any Linux with seccomp(2).
 */
#include "seccomp.h"

/* Calls are made often enough for the gate to have them. */
#define OFTEN 3000

static int error(void)
{
	only(SYS_getppid, SECCOMP_RET_ERRNO | 71);
	for (int i = 0; i < OFTEN; i++) {
		errno = 0;
		CHECK(syscall(SYS_getppid) == -1 && errno == 71);
		CHECK(getpid() > 0 && syscall(SYS_getpid) == getpid());
	}
	/* More than an errno can be is cut, and 0 is an answer. */
	CHECK(!INSTALL(0, LOAD(nr), UNLESS(SYS_getuid), RETURN(SECCOMP_RET_ERRNO | 5000), ALLOW));
	CHECK(!INSTALL(0, LOAD(nr), UNLESS(SYS_getgid), RETURN(SECCOMP_RET_ERRNO), ALLOW));
	printf("%ld %ld\n", syscall(SYS_getuid), syscall(SYS_getgid));
	printf("%d %d\n", errno, prctl(PR_GET_SECCOMP));
	return 0;
}

static int arguments(void)
{
	no_new_privileges();
	/* Of all six, the low halves; and who calls where. */
	CHECK(!INSTALL(0, LOAD(nr), UNLESS(SYS_mremap), BPF_JUMP(BPF_JMP | BPF_JA, 1, 0, 0), ALLOW,
		       LOAD(args[0]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 11, 0, 13),
		       LOAD(args[1]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 12, 0, 11),
		       LOAD(args[2]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 13, 0, 9),
		       LOAD(args[3]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 14, 0, 7),
		       LOAD(args[4]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 15, 0, 5),
		       LOAD(args[5]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 16, 0, 3),
		       LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 1),
		       RETURN(SECCOMP_RET_ERRNO | 100),
		       RETURN(SECCOMP_RET_ERRNO | 101)));
	for (int i = 0; i < OFTEN; i++) {
		CHECK(syscall(SYS_mremap, 11, 12, 13, 14, 15, 16) == -1 && errno == 100);
		CHECK(syscall(SYS_mremap, 11, 12, 13, 14, 15, 17) == -1 && errno == 101);
		CHECK(syscall(SYS_mremap, 11, 12, 13, 14, 17, 16) == -1 && errno == 101);
		CHECK(syscall(SYS_mremap, 12, 12, 13, 14, 15, 16) == -1 && errno == 101);
	}
	puts("seen");
	return 0;
}

static volatile int traps;
static siginfo_t trap;
static volatile long trap_rax, trap_rip;

static void trapped(int number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

	traps++;
	trap = *info;
	trap_rax = regs[REG_RAX];
	trap_rip = regs[REG_RIP];
	regs[REG_RAX] = 4242 + regs[REG_RDI];
}

static int caught(void)
{
	struct sigaction action = { .sa_sigaction = trapped, .sa_flags = SA_SIGINFO };

	CHECK(!sigaction(SIGSYS, &action, NULL));
	only(SYS_getpgid, SECCOMP_RET_TRAP | 33);
	for (int i = 0; i < OFTEN; i++) {
		CHECK(syscall(SYS_getpgid, i) == 4242 + i && traps == i + 1);
		CHECK((long)trap.si_call_addr == trap_rip);
	}
	printf("%d %d %d %d %#x %ld\n", trap.si_signo, trap.si_code, trap.si_errno,
	       trap.si_syscall, trap.si_arch, trap_rax);
	return 0;
}

/* How a child ends that does this. */
static void ending(const char *name, void (*of)(void))
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		of();
		_exit(9);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (WIFSIGNALED(status))
		printf("%s: signal %d\n", name, WTERMSIG(status));
	else
		printf("%s: %d\n", name, WEXITSTATUS(status));
}

static void killed(void)
{
	only(SYS_getppid, SECCOMP_RET_KILL_PROCESS);
	syscall(SYS_getppid);
}

static void killed_often_asked(void)
{
	/* Once it has been made often enough for the gate. */
	for (int i = 0; i < OFTEN; i++)
		syscall(SYS_getppid);
	killed();
}

static void killed_though_blocked(void)
{
	sigset_t all;

	sigfillset(&all);
	CHECK(!sigprocmask(SIG_BLOCK, &all, NULL));
	only(SYS_getppid, SECCOMP_RET_TRAP);
	syscall(SYS_getppid);
}

static void unknown_action(void)
{
	only(SYS_getppid, 0x12340000);
	syscall(SYS_getppid);
}

static int in_thread_what;

static void *in_thread(void *unused)
{
	for (int i = 0; i < OFTEN / 2; i++)
		syscall(SYS_getppid);
	only(SYS_getppid, in_thread_what);
	syscall(SYS_getppid);
	_exit(8);
}

static void thread_killed(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, in_thread, NULL));
	/* It is gone when its id is. */
	pthread_join(thread, NULL);
	_exit(5);
}

static void strict(void)
{
	char byte = 0;
	int ends[2];

	CHECK(!pipe(ends));
	CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL));
	for (int i = 0; i < OFTEN; i++)
		if (syscall(SYS_write, ends[1], &byte, 1) != 1 ||
		    syscall(SYS_read, ends[0], &byte, 1) != 1)
			syscall(SYS_exit, 4);
	syscall(SYS_getpid);
}

static void strict_end(void)
{
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	syscall(SYS_exit, 6);
}

static int kills(void)
{
	ending("killed", killed);
	ending("by the gate", killed_often_asked);
	ending("though blocked", killed_though_blocked);
	ending("unknown action", unknown_action);
	in_thread_what = SECCOMP_RET_KILL_THREAD;
	ending("thread", thread_killed);
	in_thread_what = SECCOMP_RET_KILL_PROCESS;
	ending("process of a thread", thread_killed);
	ending("strict", strict);
	ending("strict, exit", strict_end);
	return 0;
}

/* What one call answers to whom it is inherited by. */
static void tell(const char *who)
{
	errno = 0;
	printf("%s: %s", who, syscall(SYS_getppid) > 0 ? "made" : strerror(errno));
	printf(", %d %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_SECCOMP));
	fflush(stdout);
}

static void *tell_in_thread(void *unused)
{
	tell("thread");
	return NULL;
}

static void tell_in_child(void)
{
	tell("child");
	_exit(0);
}

static void run_again(void)
{
	execl("/proc/self/exe", "again", "tell", NULL);
}

static int inherits(void)
{
	pthread_t thread;

	tell("before");
	only(SYS_getppid, SECCOMP_RET_ERRNO | ENOTTY);
	tell("after");
	CHECK(!pthread_create(&thread, NULL, tell_in_thread, NULL));
	pthread_join(thread, NULL);
	ending("fork", tell_in_child);
	ending("execve", run_again);
	/* The last one that says anything, unless an older one says worse. */
	only(SYS_getppid, SECCOMP_RET_ALLOW);
	tell("allowed since");
	only(SYS_getppid, SECCOMP_RET_LOG);
	tell("to be logged");
	only(SYS_getppid, SECCOMP_RET_ERRNO | EDOM);
	tell("another error");
	only(SYS_getppid, SECCOMP_RET_TRACE);
	tell("a tracer's");
	ending("killed", killed);
	return 0;
}

static int traced(void)
{
	only(SYS_getppid, SECCOMP_RET_TRACE | 5);
	tell("no tracer");
	CHECK(!INSTALL(0, LOAD(nr), UNLESS(SYS_getpgrp), RETURN(SECCOMP_RET_LOG), ALLOW));
	printf("logged: %d\n", syscall(SYS_getpgrp) == getpgid(0));
	return 0;
}

static pthread_barrier_t barrier;
static volatile int stop;

static void *synced(void *unused)
{
	long made = 0;

	for (int i = 0; i < OFTEN; i++)
		made += syscall(SYS_getppid) > 0;
	CHECK(made == OFTEN);
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	CHECK(syscall(SYS_getppid) == -1 && errno == EXDEV);
	return NULL;
}

static void *computes(void *unused)
{
	while (!stop)
		;
	CHECK(syscall(SYS_getppid) == -1 && errno == EXDEV);
	return NULL;
}

static int sync_threads(void)
{
	pthread_t threads[4];

	CHECK(!pthread_barrier_init(&barrier, NULL, 4));
	CHECK(!pthread_create(&threads[3], NULL, computes, NULL));
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, synced, NULL));
	pthread_barrier_wait(&barrier);
	no_new_privileges();
	CHECK(!INSTALL(SECCOMP_FILTER_FLAG_TSYNC, LOAD(nr), UNLESS(SYS_getppid),
		       RETURN(SECCOMP_RET_ERRNO | EXDEV), ALLOW));
	pthread_barrier_wait(&barrier);
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	puts("all");
	return 0;
}

static void install_without(void)
{
	/* Neither root nor forbidden to become it. */
	CHECK(geteuid() || !setresuid(1000, 1000, 1000));
	int got = INSTALL(0, ALLOW);

	printf("%d %s\n", got, strerror(errno));
	no_new_privileges();
	printf("%d\n", INSTALL(0, ALLOW));
	fflush(stdout);
	_exit(0);
}

static int refuses(void)
{
	struct sock_fprog none = { .len = 0 };
	unsigned int action = SECCOMP_RET_KILL_PROCESS;

	ending("without privileges", install_without);
	no_new_privileges();
	errno = 0;
	printf("%d", INSTALL(1 << 30, ALLOW));
	printf(" %s\n", strerror(errno));
	printf("%ld", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &none));
	printf(" %s\n", strerror(errno));
	printf("%d", INSTALL(0, LOAD(nr)));
	printf(" %s\n", strerror(errno));
	printf("%ld\n", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
	CHECK(!INSTALL(0, ALLOW));
	printf("%d", prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT));
	printf(" %s\n", strerror(errno));
	return 0;
}

static int numbers(void)
{
	no_new_privileges();
	/* Of any number, also such that no call has. */
	CHECK(!INSTALL(0, LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
		       RETURN(SECCOMP_RET_ERRNO | 111),
		       BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 1000, 0, 1),
		       RETURN(SECCOMP_RET_ERRNO | 112), ALLOW));
	for (int i = 0; i < OFTEN; i++) {
		CHECK(syscall(0x40000000 | SYS_getpid) == -1 && errno == 111);
		CHECK(syscall(-1) == -1 && errno == 111);
		CHECK(syscall(1000) == -1 && errno == 112);
		CHECK(syscall(0x12345) == -1 && errno == 112);
		CHECK(syscall(999) == -1 && errno == ENOSYS);
	}
	puts("all");
	return 0;
}

static void asks(void)
{
	for (int i = 0; i < 40; i++)
		if (syscall(SYS_getpgid, i) != 1000 + i)
			_exit(3);
	/* That one is made after all. */
	_exit(syscall(SYS_getpgid, 0) == getpgrp() ? 0 : 2);
}

static int notified(void)
{
	struct seccomp_notif request;
	struct seccomp_notif_resp response;
	int listener, status;
	pid_t child;

	no_new_privileges();
	listener = INSTALL(SECCOMP_FILTER_FLAG_NEW_LISTENER, LOAD(nr), UNLESS(SYS_getpgid),
			   RETURN(SECCOMP_RET_USER_NOTIF), ALLOW);
	CHECK(listener >= 0);
	child = fork();
	CHECK(child >= 0);
	if (!child)
		asks();
	for (int i = 0; i <= 40; i++) {
		struct pollfd ready = { .fd = listener, .events = POLLIN };

		CHECK(poll(&ready, 1, -1) == 1 && ready.revents & POLLIN);
		memset(&request, 0, sizeof(request));
		CHECK(!ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request));
		CHECK(request.pid == child && request.data.nr == SYS_getpgid);
		CHECK(request.data.args[0] == i % 40 && request.data.instruction_pointer);
		CHECK(!ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &request.id));
		memset(&response, 0, sizeof(response));
		response.id = request.id;
		if (i == 40)
			response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		else
			response.val = 1000 + i;
		CHECK(!ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response));
	}
	CHECK(waitpid(child, &status, 0) == child);
	printf("%d\n", status);
	return 0;
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		int (*run)(void);
	} all[] = {
		{ "error", error },
		{ "arguments", arguments },
		{ "caught", caught },
		{ "kills", kills },
		{ "inherits", inherits },
		{ "traced", traced },
		{ "sync", sync_threads },
		{ "refuses", refuses },
		{ "numbers", numbers },
		{ "notified", notified },
	};

	if (argc > 1 && !strcmp(argv[1], "tell")) {
		tell("executed");
		return 0;
	}
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (argc > 1 && !strcmp(argv[1], all[i].name))
			return all[i].run();
	fprintf(stderr, "no such test\n");
	return 2;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracers by ptrace(2), one promise for each first argument: how tracees come to have one,
 * and what becomes of them. What is printed is the same on any x86-64 Linux, but for "core",
 * which wants its dump in /tmp.
 */
#include "tracer.h"

static volatile bool go;
/* How far a child has come, told to its parent. */
static volatile long *progress;

static void computes(void)
{
	register long count asm("r15") = 0;

	while (!go) {
		*progress = count++;
		asm volatile("" : "+r" (count) : : "memory");
	}
	for (int i = 0; i < OFTEN; i++)
		syscall(SYS_getuid);
	for (*progress = 0;; ++*progress)
		syscall(SYS_getppid);
}

static void wait_until(long far)
{
	while (*progress < far)
		usleep(1000);
}

/* A tracer comes to who computes, and to whose calls go by the gate, and leaves again. */
static int seizes(void)
{
	struct user_regs_struct regs;
	int status;
	pid_t pid;

	progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(progress != MAP_FAILED);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		computes();
	wait_until(2000);
	CHECK(!trace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD));
	CHECK(!trace(PTRACE_INTERRUPT, pid, 0, 0));
	status = wait_for(pid);
	printf("%#x\n", status);
	regs = registers(pid);
	CHECK(regs.r15 > 1000);
	CHECK(trace(PTRACE_POKEDATA, pid, (uintptr_t)&go, 1) == 0);
	*progress = 0;
	CHECK(!trace(PTRACE_DETACH, pid, 0, 0));
	/* The calls before it counts are counted as well. */
	wait_until(OFTEN);
	CHECK(!trace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD));
	CHECK(!trace(PTRACE_INTERRUPT, pid, 0, 0));
	printf("%#x\n", wait_for(pid));
	for (int i = 0; i < 100; i++) {
		CHECK(goes_on(pid, PTRACE_SYSCALL, &status));
		CHECK(WSTOPSIG(status) == (SIGTRAP | 0x80));
		regs = registers(pid);
		CHECK(regs.orig_rax == SYS_getppid || regs.orig_rax == SYS_getuid);
		if (i % 2 && regs.orig_rax == SYS_getppid)
			CHECK(regs.rax == getpid());
	}
	/* Every instruction there is, of rewritten calls too. */
	for (int i = 0; i < 500; i++) {
		uintptr_t from = registers(pid).rip;

		CHECK(goes_on(pid, PTRACE_SINGLESTEP, &status));
		CHECK(WSTOPSIG(status) == SIGTRAP && registers(pid).rip != from);
	}
	CHECK(!trace(PTRACE_DETACH, pid, 0, 0));
	usleep(1000);
	kill(pid, SIGKILL);
	printf("%#x\n", wait_for(pid));
	return 0;
}

static volatile long passed;

static void handled(int number)
{
	passed += number;
}

static void is_signalled(void)
{
	signal(SIGUSR1, handled);
	raise(SIGUSR1);
	raise(SIGUSR2);
	printf("%ld\n", passed);
}

/* Signals stop for a tracer, which has others delivered, or none. */
static int signals(void)
{
	pid_t pid = traced(is_signalled);
	int status, with = 0;

	for (;;) {
		CHECK(!trace(PTRACE_CONT, pid, 0, with));
		status = wait_for(pid);
		if (!WIFSTOPPED(status))
			break;
		printf("signal %d\n", WSTOPSIG(status));
		with = SIGUSR1;
	}
	printf("%#x\n", status);
	return 0;
}

static void starts_others(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl(self, self, "ends", NULL);
		_exit(1);
	}
	wait_for(pid);
}

/* What a tracee starts is its tracer's too, from its first moment on. */
static int others(void)
{
	pid_t pid = traced(starts_others), child = 0, at;
	int status, calls = 0, execs = 0, left = 1;

	CHECK(!trace(PTRACE_SETOPTIONS, pid, 0,
		     PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC));
	CHECK(!trace(PTRACE_SYSCALL, pid, 0, 0));
	while (left && (at = waitpid(-1, &status, __WALL)) > 0) {
		int with = 0;

		if (!WIFSTOPPED(status)) {
			printf("%s ends: %#x\n", at == pid ? "it" : "its child", status);
			left--;
			continue;
		}
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			calls += at != pid;
		} else if (status >> 8 == (SIGTRAP | PTRACE_EVENT_FORK << 8)) {
			long message;

			CHECK(!trace(PTRACE_GETEVENTMSG, at, 0, (uintptr_t)&message));
			child = message;
			left++;
		} else if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
			execs++;
		} else if (WSTOPSIG(status) != SIGSTOP) {
			with = WSTOPSIG(status);
		}
		CHECK(!trace(PTRACE_SYSCALL, at, 0, with));
	}
	printf("%d %d %d\n", child > 0, calls > 4, execs);
	return 0;
}

static void *note(uint8_t *core, int type)
{
	Elf64_Ehdr *file = (void *)core;
	Elf64_Phdr *part = (void *)(core + file->e_phoff);

	for (int i = 0; i < file->e_phnum; i++) {
		uint8_t *at = core + part[i].p_offset, *last = at + part[i].p_filesz;

		while (part[i].p_type == PT_NOTE && at < last) {
			Elf64_Nhdr *head = (void *)at;
			uint8_t *content = at + sizeof(*head) + (head->n_namesz + 3 & ~3);

			if (head->n_type == type)
				return content;
			at = content + (head->n_descsz + 3 & ~3);
		}
	}
	return NULL;
}

/* The dump of who dies has its registers. */
static int core(void)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	static uint8_t bytes[8 << 20];
	struct elf_prstatus *status;
	uint64_t *fp;
	pid_t pid;
	int fd;

	CHECK(!chdir("/tmp"));
	pid = fork();
	if (!pid) {
		CHECK(!setrlimit(RLIMIT_CORE, &all));
		asm volatile("mov $0x1234567, %%r15\n"
			     "movq %%r15, %%xmm3\n"
			     "ud2\n" : : : "r15", "xmm3");
	}
	printf("%#x\n", wait_for(pid));
	fd = open("core", O_RDONLY);
	CHECK(fd >= 0 && read(fd, bytes, sizeof(bytes)) > 4096);
	status = note(bytes, NT_PRSTATUS);
	fp = note(bytes, NT_FPREGSET);
	CHECK(status && fp && note(bytes, NT_X86_XSTATE));
	printf("%d %lx %lx\n", status->pr_info.si_signo,
	       (long)((struct user_regs_struct *)status->pr_reg)->r15, fp[(160 + 16 * 3) / 8]);
	return 0;
}

static void tell_file(pid_t pid)
{
	char name[64], said[256], *end;
	int fd;

	sprintf(name, "/proc/%d/syscall", pid);
	/* Until it waits there. */
	do {
		usleep(1000);
		memset(said, 0, sizeof(said));
		fd = open(name, O_RDONLY);
		CHECK(fd >= 0 && read(fd, said, sizeof(said) - 1) > 0);
		close(fd);
		end = strstr(said, " 0x0 0x0 0x0");
	} while (strncmp(said, "0 0x32 ", 7) || !end);
	*end = 0;
	puts(said);
}

/* /proc/PID/syscall */
static int file(void)
{
	int ends[2];
	pid_t pid;

	CHECK(!pipe(ends));
	CHECK(dup2(ends[0], 50) == 50);
	pid = fork();
	if (!pid) {
		syscall(SYS_read, 50, 0, 7, 0, 0, 0);
		_exit(0);
	}
	tell_file(pid);
	kill(pid, SIGKILL);
	printf("%#x\n", wait_for(pid));
	return 0;
}

static int ends(void)
{
	return 5;
}

int main(int argc, char **argv)
{
	static const struct promise all[] = {
		{ "seizes", seizes }, { "signals", signals }, { "others", others },
		{ "core", core }, { "file", file }, { "ends", ends },
	};

	return kept(argc, argv, all, sizeof(all) / sizeof(*all));
}

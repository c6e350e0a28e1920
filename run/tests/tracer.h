/* What programs that trace share. */
#include "process.h"
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

/* Calls are made often enough for the gate to have them. */
#define OFTEN 3000

static inline long trace(int what, pid_t pid, uintptr_t address, uintptr_t data)
{
	return ptrace(what, pid, address, data);
}

/* A child that does this, stopped before it does, with its calls marked. */
static inline pid_t traced(void (*does)(void))
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(!trace(PTRACE_TRACEME, 0, 0, 0));
		raise(SIGSTOP);
		does();
		fflush(stdout);
		_exit(0);
	}
	CHECK(WSTOPSIG(wait_for(pid)) == SIGSTOP);
	CHECK(!trace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD));
	return pid;
}

static inline struct user_regs_struct registers(pid_t pid)
{
	struct user_regs_struct regs;

	CHECK(!trace(PTRACE_GETREGS, pid, 0, (uintptr_t)&regs));
	return regs;
}

static inline void set_registers(pid_t pid, struct user_regs_struct *regs)
{
	CHECK(!trace(PTRACE_SETREGS, pid, 0, (uintptr_t)regs));
}

/* Goes on like this; false: it has ended. */
static inline bool goes_on(pid_t pid, int how, int *status)
{
	CHECK(!trace(how, pid, 0, 0));
	*status = wait_for(pid);
	return WIFSTOPPED(*status);
}

static inline void end(pid_t pid)
{
	int status;

	while (goes_on(pid, PTRACE_CONT, &status))
		;
	printf("ends: %#x\n", status);
}

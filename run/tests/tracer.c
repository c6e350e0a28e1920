// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracers by ptrace(2), one promise for each first argument: calls, instructions and
 * registers. What is printed is the same on any x86-64 Linux.
 */
#include "tracer.h"

static void calls_some(void)
{
	for (int i = 0; i < OFTEN; i++)
		syscall(SYS_getuid);
	syscall(SYS_mremap, 11, 12, 13, 14, 15, 16);
	syscall(SYS_lseek, -1, 22, 33);
	syscall(999, 1, 2, 3, 4, 5, 6);
	syscall(-1);
}

static void tell_call(pid_t pid)
{
	struct __ptrace_syscall_info info;
	struct user_regs_struct regs = registers(pid);
	size_t size = trace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), (uintptr_t)&info);

	CHECK(size != -1);
	CHECK(info.instruction_pointer == regs.rip && info.stack_pointer == regs.rsp);
	if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
		printf("%#x %d (", info.arch, (int)info.entry.nr);
		for (int i = 0; i < 6; i++)
			printf(" %lld", (int)info.entry.nr == SYS_mremap || (int)info.entry.nr == 999 ?
			       info.entry.args[i] : 0);
		printf(") %ld", (long)regs.rax);
		CHECK((int)regs.orig_rax == (int)info.entry.nr);
		CHECK(regs.cs == 0x33 && regs.ss == 0x2b && !regs.ds && !regs.gs_base && regs.fs_base);
	} else {
		CHECK(info.op == PTRACE_SYSCALL_INFO_EXIT);
		printf(" = %lld%s %ld\n", info.exit.rval, info.exit.is_error ? "!" : "", (long)regs.rax);
	}
}

/* A tracer sees each call twice, with arguments and result. */
static int calls(void)
{
	pid_t pid = traced(calls_some);
	int status, seen = 0;

	while (goes_on(pid, PTRACE_SYSCALL, &status)) {
		CHECK(WSTOPSIG(status) == (SIGTRAP | 0x80));
		if (registers(pid).orig_rax != SYS_getuid)
			tell_call(pid);
		else
			seen++;
	}
	printf("\n%d\n%#x\n", seen, status);
	return 0;
}

static void asks(void)
{
	long answers[] = {
		syscall(SYS_getpgid, -5), errno, syscall(SYS_lseek, 7000, 8, 9), syscall(SYS_getsid, 1234),
	};

	for (int i = 0; i < 4; i++)
		printf("%ld\n", answers[i]);
	fflush(stdout);
}

/* A tracer changes a call's number, its arguments and its result, and takes it away. */
static int changes(void)
{
	pid_t pid = traced(asks);
	bool entry = false;
	int status;

	while (goes_on(pid, PTRACE_SYSCALL, &status)) {
		struct user_regs_struct regs = registers(pid);

		entry = !entry;
		if (entry && regs.orig_rax == SYS_getpgid) {
			regs.orig_rax = -1;
			regs.rax = -ELOOP;
			set_registers(pid, &regs);
		} else if (entry && regs.orig_rax == SYS_lseek) {
			regs.orig_rax = SYS_dup2;
			regs.rdi = 1;
			regs.rsi = 77;
			set_registers(pid, &regs);
		} else if (!entry && regs.orig_rax == SYS_getsid) {
			CHECK((long)regs.rax == -ESRCH);
			CHECK(!trace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.rax), 4321));
			CHECK(trace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.rax), 0) == 4321);
		}
	}
	printf("%#x\n", status);
	return 0;
}

/* A tracer makes its tracee's calls itself. */
static int emulates(void)
{
	pid_t pid = traced(asks);
	int status, seen = 0;

	while (goes_on(pid, PTRACE_SYSEMU, &status)) {
		struct user_regs_struct regs = registers(pid);

		CHECK(WSTOPSIG(status) == (SIGTRAP | 0x80));
		CHECK((long)regs.rax == -ENOSYS);
		if (regs.orig_rax == SYS_exit_group)
			break;
		regs.rax = regs.orig_rax == SYS_write ? regs.rdx : 100 + seen++;
		set_registers(pid, &regs);
	}
	printf("%d\n", seen > 0);
	kill(pid, SIGKILL);
	printf("%#x\n", wait_for(pid));
	return 0;
}

extern char steps_from[], steps_end[];

static __attribute__((noinline, noclone)) void runs_once(void)
{
	asm volatile("mov $7, %%ecx\n"
		     "int3\n"
		     "steps_from: nop\n"
		     "1: dec %%ecx\n"
		     "jnz 1b\n"
		     "mov $39, %%eax\n"
		     "syscall\n"
		     "nop\n"
		     "cld\n"
		     "steps_end: nop\n"
		     : : : "rax", "rcx", "r11", "memory");
}

static void runs_steps(void)
{
	runs_once();
	runs_once();
}

/* A tracer goes instruction by instruction, calls of the kernel included. */
static int steps(void)
{
	pid_t pid = traced(runs_steps);
	siginfo_t info;
	int status, count;

	while (goes_on(pid, PTRACE_CONT, &status)) {
		CHECK(WSTOPSIG(status) == SIGTRAP);
		CHECK(!trace(PTRACE_GETSIGINFO, pid, 0, (uintptr_t)&info));
		printf("code %#x at %ld\n", info.si_code, (long)registers(pid).rip - (long)steps_from);
		for (count = 0; registers(pid).rip != (long)steps_end; count++) {
			CHECK(goes_on(pid, PTRACE_SINGLESTEP, &status));
			CHECK(WSTOPSIG(status) == SIGTRAP);
			CHECK(!trace(PTRACE_GETSIGINFO, pid, 0, (uintptr_t)&info));
			CHECK(!(registers(pid).eflags & 0x100));
			printf("%ld/%d ", (long)registers(pid).rip - (long)steps_from, info.si_code);
		}
		printf("\n%d\n", count);
	}
	printf("%#x\n", status);
	return 0;
}

static volatile long passed;

static __attribute__((noinline)) long passes(long by)
{
	asm volatile("");
	return passed += by;
}

static void passes_often(void)
{
	for (int i = 1; i <= 5; i++)
		passes(i);
	printf("%ld\n", passed);
}

/* A debugger's breakpoint: the instruction is put back, stepped over, and replaced again. */
static int breaks(void)
{
	pid_t pid = traced(passes_often);
	uintptr_t at = (uintptr_t)passes;
	long word = trace(PTRACE_PEEKTEXT, pid, at, 0);
	long broken = (word & ~0xffL) | 0xcc;
	int status, hits = 0;

	CHECK(word == *(long *)at);
	CHECK(!trace(PTRACE_POKETEXT, pid, at, broken));
	while (goes_on(pid, PTRACE_CONT, &status)) {
		struct user_regs_struct regs = registers(pid);

		CHECK(WSTOPSIG(status) == SIGTRAP && regs.rip == at + 1);
		printf("%d: %ld\n", ++hits, (long)regs.rdi);
		regs.rip = at;
		regs.rdi *= 100;
		set_registers(pid, &regs);
		CHECK(!trace(PTRACE_POKETEXT, pid, at, word));
		CHECK(goes_on(pid, PTRACE_SINGLESTEP, &status));
		CHECK(!trace(PTRACE_POKETEXT, pid, at, broken));
	}
	/* Its own copy of the code it was. */
	CHECK(*(long *)at == word);
	printf("%#x\n", status);
	return 0;
}

static void has_vectors(void)
{
	uint64_t in[2] = { 0x1111222233334444, 0x5555666677778888 }, out[2];

	asm volatile("movups %1, %%xmm9\n"
		     "int3\n"
		     "movups %%xmm9, %0\n"
		     : "=m" (out) : "m" (in) : "xmm9");
	printf("%lx %lx\n", out[0], out[1]);
}

/* A tracer reads and writes vector registers. */
static int vectors(void)
{
	pid_t pid = traced(has_vectors);
	static uint8_t all[16384];
	struct iovec area = { all, sizeof(all) };
	struct user_fpregs_struct fp;
	uint64_t *xmm9 = (void *)&fp.xmm_space[4 * 9], *xcr0 = (void *)(all + 464);
	int status;

	CHECK(goes_on(pid, PTRACE_CONT, &status) && WSTOPSIG(status) == SIGTRAP);
	CHECK(!trace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, (uintptr_t)&area));
	CHECK(area.iov_len >= 576 && area.iov_len < sizeof(all) && (*xcr0 & 3) == 3);
	CHECK(!trace(PTRACE_GETFPREGS, pid, 0, (uintptr_t)&fp));
	CHECK(!memcmp(all + 160, fp.xmm_space, sizeof(fp.xmm_space)));
	printf("%lx %lx %x %x\n", xmm9[0], xmm9[1], fp.cwd, fp.mxcsr);
	xmm9[0] = 0xabcdef;
	CHECK(!trace(PTRACE_SETFPREGS, pid, 0, (uintptr_t)&fp));
	area.iov_len = sizeof(all);
	CHECK(!trace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, (uintptr_t)&area));
	CHECK(!memcmp(all + 160, fp.xmm_space, sizeof(fp.xmm_space)));
	/* The high half by the other way; and what no processor loads is refused. */
	*(uint64_t *)(all + 160 + 16 * 9 + 8) = 0x123456;
	CHECK(!trace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, (uintptr_t)&area));
	fp.mxcsr = -1;
	CHECK(trace(PTRACE_SETFPREGS, pid, 0, (uintptr_t)&fp) == -1 && errno == EINVAL);
	*(uint64_t *)(all + 512) |= 1ul << 62;
	CHECK(trace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, (uintptr_t)&area) == -1 && errno == EINVAL);
	end(pid);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct promise all[] = {
		{ "calls", calls }, { "changes", changes }, { "emulates", emulates },
		{ "steps", steps }, { "breaks", breaks }, { "vectors", vectors },
	};

	return kept(argc, argv, all, sizeof(all) / sizeof(*all));
}

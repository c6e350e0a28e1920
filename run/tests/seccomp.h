// SPDX-License-Identifier: GPL-2.0-only
/* What programs that try filters of system calls write them with. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define CHECK(what) \
	do { if (!(what)) { printf("%d: not so: %s: %s\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)

#define LOAD(field)	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what)	BPF_STMT(BPF_RET | BPF_K, (what))
#define ALLOW		RETURN(SECCOMP_RET_ALLOW)
#define UNLESS(value)	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, 1)

static int install_with(unsigned int flags, struct sock_filter *filter, int length)
{
	struct sock_fprog program = { .len = length, .filter = filter };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

#define INSTALL(flags, ...) ({ \
	struct sock_filter filter[] = { __VA_ARGS__ }; \
	install_with((flags), filter, sizeof(filter) / sizeof(filter[0])); })

static void no_new_privileges(void)
{
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
}

static void only(int number, unsigned int what)
{
	no_new_privileges();
	CHECK(!INSTALL(0, LOAD(nr), UNLESS(number), RETURN(what), ALLOW));
}

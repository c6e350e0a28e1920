/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the library asks a system for, as calls of functions. The number is a constant wherever
 * the library asks, so that all of the switch but one case goes, and a program imports what it
 * uses. What is not here is ENOSYS.
 */
#include <errno.h>
#include "calls.h"

#define __SYSCALL_LL_E(x) (x)
#define __SYSCALL_LL_O(x) (x)

#define __scc(x) ((long)(x))
typedef long syscall_arg_t;

#define TANE_INLINE static inline __attribute__((__always_inline__, __unused__))

TANE_INLINE long __tane_socket_call(long n, long a, long b, long c, long d, long e, long f)
{
	switch (n) {
	case SYS_socket:
		return __tane_socket(a, b, c);
	case SYS_bind:
		return import_bind(a, (void *)b, c);
	case SYS_listen:
		return import_listen(a, b);
	case SYS_accept:
		return import_accept4(a, (void *)b, (void *)c, 0);
	case SYS_accept4:
		return import_accept4(a, (void *)b, (void *)c, d);
	case SYS_connect:
		return import_connect(a, (void *)b, c);
	case SYS_shutdown:
		return import_shutdown(a, b);
	case SYS_sendto:
		return import_sendto(a, (void *)b, c, d, (void *)e, f);
	case SYS_recvfrom:
		return import_recvfrom(a, (void *)b, c, d, (void *)e, (void *)f);
	case SYS_getsockname:
		return import_getsockname(a, (void *)b, (void *)c);
	case SYS_getpeername:
		return import_getpeername(a, (void *)b, (void *)c);
	case SYS_setsockopt:
		return import_setsockopt(a, b, c, (void *)d, e);
	case SYS_getsockopt:
		return import_getsockopt(a, b, c, (void *)d, (void *)e);
	case SYS_poll:
		return __tane_poll((void *)a, b, c);
	}
	return -ENOSYS;
}

TANE_INLINE long __syscall6(long n, long a, long b, long c, long d, long e, long f)
{
	switch (n) {
	/* Descriptors: the standard streams are functions of the loader's. */
	case SYS_read:
		return __tane_read(a, (void *)b, c);
	case SYS_write:
		return __tane_write(a, (void *)b, c);
	case SYS_readv:
		return __tane_readv(a, (void *)b, c);
	case SYS_writev:
		return __tane_writev(a, (void *)b, c);
	case SYS_lseek:
		return __tane_lseek(a, b, c);
	case SYS_close:
		return __tane_close(a);
	case SYS_fstat:
		return __tane_fstat(a, (void *)b);
	case SYS_fcntl:
		return __tane_fcntl(a, b, c);
	case SYS_ioctl:
		return -ENOTTY;

	/* Files. */
	case SYS_open:
		return __tane_openat(TANE_HERE, (void *)a, b, c);
	case SYS_openat:
		return __tane_openat(a, (void *)b, c, d);
	case SYS_pread64:
		return import_pread(a, (void *)b, c, d);
	case SYS_pwrite64:
		return import_pwrite(a, (void *)b, c, d);
	case SYS_stat:
		return import_fstatat(TANE_HERE, (void *)a, (void *)b, 0);
	case SYS_lstat:
		return import_fstatat(TANE_HERE, (void *)a, (void *)b, TANE_NOFOLLOW);
	case SYS_newfstatat:
		return import_fstatat(a, (void *)b, (void *)c, d);
	case SYS_getdents64:
		return import_getdents64(a, (void *)b, c);
	case SYS_readlink:
		return import_readlinkat(TANE_HERE, (void *)a, (void *)b, c);
	case SYS_readlinkat:
		return import_readlinkat(a, (void *)b, (void *)c, d);
	case SYS_access:
		return import_faccessat(TANE_HERE, (void *)a, b);
	case SYS_faccessat:
		return import_faccessat(a, (void *)b, c);
	case SYS_mkdir:
		return import_mkdirat(TANE_HERE, (void *)a, b);
	case SYS_mkdirat:
		return import_mkdirat(a, (void *)b, c);
	case SYS_unlink:
		return import_unlinkat(TANE_HERE, (void *)a, 0);
	case SYS_rmdir:
		return import_unlinkat(TANE_HERE, (void *)a, TANE_REMOVEDIR);
	case SYS_unlinkat:
		return import_unlinkat(a, (void *)b, c);
	case SYS_rename:
		return import_renameat(TANE_HERE, (void *)a, TANE_HERE, (void *)b);
	case SYS_renameat:
		return import_renameat(a, (void *)b, c, (void *)d);
	case SYS_link:
		return import_linkat(TANE_HERE, (void *)a, TANE_HERE, (void *)b, 0);
	case SYS_linkat:
		return import_linkat(a, (void *)b, c, (void *)d, e);
	case SYS_symlink:
		return import_symlinkat((void *)a, TANE_HERE, (void *)b);
	case SYS_symlinkat:
		return import_symlinkat((void *)a, b, (void *)c);
	case SYS_fchmod:
		return import_fchmod(a, b);
	case SYS_ftruncate:
		return import_ftruncate(a, b);
	case SYS_fallocate:
		return import_fallocate(a, b, c, d);
	case SYS_fsync:
		return import_fsync(a);
	case SYS_fdatasync:
		return import_fdatasync(a);
	case SYS_getcwd:
		return __tane_getcwd((void *)a, b);

	/* Memory. */
	case SYS_mmap:
		return __tane_mmap(b, d, e);
	case SYS_munmap:
		return __tane_munmap(a, b);
	case SYS_mremap:
		return __tane_mremap(a, b, c);

	/* The rest of Linux's that a module can import. */
	case SYS_clock_gettime:
		return import_clock_gettime(a, (void *)b);
	case SYS_getrandom:
		return import_getrandom((void *)a, b, c);
	case SYS_sched_yield:
		return import_sched_yield();
	case SYS_getppid:
		return import_getppid();

	case SYS_exit:
	case SYS_exit_group:
		import_tane_exit(a);

	/* A module is one task, root of what it sees, and no signal comes to it. */
	case SYS_getpid:
	case SYS_gettid:
		return 1;
	case SYS_getuid:
	case SYS_geteuid:
	case SYS_getgid:
	case SYS_getegid:
	case SYS_rt_sigprocmask:
	case SYS_futex:
		return 0;
	}
	/* Who has not said which number is meant does not mean these: few programs have sockets. */
	return __builtin_constant_p(n) ? __tane_socket_call(n, a, b, c, d, e, f) : -ENOSYS;
}

TANE_INLINE long __syscall5(long n, long a, long b, long c, long d, long e)
{
	return __syscall6(n, a, b, c, d, e, 0);
}

TANE_INLINE long __syscall4(long n, long a, long b, long c, long d)
{
	return __syscall6(n, a, b, c, d, 0, 0);
}

TANE_INLINE long __syscall3(long n, long a, long b, long c)
{
	return __syscall6(n, a, b, c, 0, 0, 0);
}

TANE_INLINE long __syscall2(long n, long a, long b)
{
	return __syscall6(n, a, b, 0, 0, 0, 0);
}

TANE_INLINE long __syscall1(long n, long a)
{
	return __syscall6(n, a, 0, 0, 0, 0, 0);
}

TANE_INLINE long __syscall0(long n)
{
	return __syscall6(n, 0, 0, 0, 0, 0, 0);
}

/* There is no cancellation, since there are no threads. */
TANE_INLINE long __syscall_cp(long n, long a, long b, long c, long d, long e, long f)
{
	return __syscall6(n, a, b, c, d, e, f);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* What syscall_arch.h calls. As of system calls, results are negative errnos. */
#ifndef TANE_CALLS_H
#define TANE_CALLS_H

struct iovec;

/* Of <fcntl.h>, which the library's own headers redefine. */
#define TANE_HERE (-100)
#define TANE_NOFOLLOW 0x100
#define TANE_REMOVEDIR 0x200

/* streams.c */
#pragma GCC visibility push(hidden)
long __tane_read(int fd, void *to, unsigned long bytes);
long __tane_write(int fd, const void *from, unsigned long bytes);
long __tane_readv(int fd, const struct iovec *to, int count);
long __tane_writev(int fd, const struct iovec *from, int count);
long __tane_lseek(int fd, long offset, int whence);
long __tane_close(int fd);
long __tane_fstat(int fd, void *stat);
long __tane_fcntl(int fd, int command, long argument);

/* files.c: there if something is that opens files. */
long __tane_file_read(int fd, void *to, unsigned long bytes);
long __tane_file_write(int fd, const void *from, unsigned long bytes);
long __tane_file_lseek(int fd, long offset, int whence);
long __tane_file_close(int fd);
long __tane_file_fstat(int fd, void *stat);
long __tane_openat(int dir, const char *path, int flags, int mode);
long __tane_getcwd(char *to, unsigned long bytes);

/* sockets.c: there if something is that makes sockets. */
long __tane_socket_read(int fd, void *to, unsigned long bytes);
long __tane_socket_write(int fd, const void *from, unsigned long bytes);
long __tane_socket_close(int fd);
long __tane_socket_fstat(int fd, void *stat);
long __tane_socket_fcntl(int fd, int command, long flags);
long __tane_socket(int domain, int type, int protocol);

/* poll.c */
long __tane_poll(void *fds, unsigned long count, int milliseconds);

/* memory.c */
long __tane_mmap(unsigned long bytes, int flags, int fd);
long __tane_munmap(unsigned long at, unsigned long bytes);
long __tane_mremap(unsigned long at, unsigned long bytes, unsigned long wanted);
#pragma GCC visibility pop

/* Imports, under names that no function of the library has. */
#define TANE_IMPORT(name, ...) long import_##name(__VA_ARGS__) __asm__("tmod.import." #name)

TANE_IMPORT(read, int fd, void *to, unsigned long bytes);
TANE_IMPORT(write, int fd, const void *from, unsigned long bytes);
TANE_IMPORT(pread, int fd, void *to, unsigned long bytes, long at);
TANE_IMPORT(pwrite, int fd, const void *from, unsigned long bytes, long at);
TANE_IMPORT(openat, int dir, const char *path, int flags, int mode);
TANE_IMPORT(close, int fd);
TANE_IMPORT(lseek, int fd, long offset, int whence);
TANE_IMPORT(fstat, int fd, void *stat);
TANE_IMPORT(fstatat, int dir, const char *path, void *stat, int flags);
TANE_IMPORT(getdents64, int fd, void *entries, unsigned long bytes);
TANE_IMPORT(readlinkat, int dir, const char *path, char *to, unsigned long bytes);
TANE_IMPORT(faccessat, int dir, const char *path, int mode);
TANE_IMPORT(mkdirat, int dir, const char *path, int mode);
TANE_IMPORT(unlinkat, int dir, const char *path, int flags);
TANE_IMPORT(renameat, int from, const char *path, int to, const char *new_path);
TANE_IMPORT(linkat, int from, const char *path, int to, const char *new_path, int flags);
TANE_IMPORT(symlinkat, const char *target, int dir, const char *path);
TANE_IMPORT(fchmod, int fd, int mode);
TANE_IMPORT(ftruncate, int fd, long bytes);
TANE_IMPORT(fallocate, int fd, int mode, long offset, long bytes);
TANE_IMPORT(fsync, int fd);
TANE_IMPORT(fdatasync, int fd);
TANE_IMPORT(socket, int domain, int type, int protocol);
TANE_IMPORT(bind, int fd, const void *address, unsigned int bytes);
TANE_IMPORT(listen, int fd, int backlog);
TANE_IMPORT(accept4, int fd, void *address, void *bytes, int flags);
TANE_IMPORT(connect, int fd, const void *address, unsigned int bytes);
TANE_IMPORT(shutdown, int fd, int how);
TANE_IMPORT(sendto, int fd, const void *from, unsigned long bytes, int flags, const void *address,
	    unsigned int address_bytes);
TANE_IMPORT(recvfrom, int fd, void *to, unsigned long bytes, int flags, void *address,
	    void *address_bytes);
TANE_IMPORT(getsockname, int fd, void *address, void *bytes);
TANE_IMPORT(getpeername, int fd, void *address, void *bytes);
TANE_IMPORT(setsockopt, int fd, int level, int option, const void *value, unsigned int bytes);
TANE_IMPORT(getsockopt, int fd, int level, int option, void *value, void *bytes);
TANE_IMPORT(poll, void *fds, unsigned long count, int milliseconds);
TANE_IMPORT(fcntl, int fd, int command, long flags);
TANE_IMPORT(clock_gettime, int clock, void *time);
TANE_IMPORT(getrandom, void *to, unsigned long bytes, unsigned int flags);
TANE_IMPORT(sched_yield, void);
TANE_IMPORT(getppid, void);
TANE_IMPORT(tane_input, void *to, unsigned long bytes);
TANE_IMPORT(tane_output, int which, const void *from, unsigned long bytes);
TANE_IMPORT(tane_heap, void);
TANE_IMPORT(tane_heap_end, void);
_Noreturn void import_tane_exit(int code) __asm__("tmod.import.tane_exit");

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a module may import of the kernel that it runs beside. These are Linux's system
 * calls, as their man pages have them, with two differences: an error is the negative
 * errno that the call gives, and where a pointer may be null there it may not here.
 * Structures and constants are those of the compiler's <linux/...> headers.
 *
 * Calls on files see one directory of the kernel's: it is the root, the current directory
 * and descriptor 0 (of run-module 0 to 3). Where the loader gave none they are not there.
 */
#ifndef TANE_MODULE_H
#define TANE_MODULE_H

typedef __SIZE_TYPE__ tane_size;

/*
 * Of `tane run-module`, which calls int main(int argc, char **argv). Standard input, output
 * (1) and errors (2): at most a mebibyte at a time. The heap is what lies behind the data
 * of the module and below its stack.
 */
long tane_input(void *to, tane_size bytes);
long tane_output(int which, const void *from, tane_size bytes);
void *tane_heap(void);
void *tane_heap_end(void);

/*
 * Only what is below this place, a multiple of 4096 in the heap, can be accessed from now on:
 * above it is nothing, which is zeroes where it comes back. At first all can. 0, or -EINVAL.
 */
long tane_heap_limit(void *end);

/*
 * Of every loader. tane_try() calls the function with both pointers; 1 if tane_throw() was
 * called meanwhile and not caught further in, which leaves everything in between as it is;
 * else 0. There is no setjmp(): a place that has been left cannot be returned to.
 */
void tane_exit(int code);
int tane_try(void (*function)(void *, void *), void *first, void *second);
void tane_throw(void);

/* With a C library the rest is that library's. */
#ifndef __TANE_LIBC__

/* Always there. */
long getppid(void);
long clock_gettime(int clock, void *time);
long getrandom(void *to, tane_size bytes, unsigned int flags);
long sched_yield(void);

/* Files. */
long read(int fd, void *to, tane_size bytes);
long write(int fd, const void *from, tane_size bytes);
long pread(int fd, void *to, tane_size bytes, long at);
long pwrite(int fd, const void *from, tane_size bytes, long at);
long openat(int dir, const char *path, int flags, int mode);
long close(int fd);
long lseek(int fd, long offset, int whence);
long fstat(int fd, void *stat);
long fstatat(int dir, const char *path, void *stat, int flags);
long getdents64(int fd, void *entries, tane_size bytes);
long readlinkat(int dir, const char *path, char *to, tane_size bytes);
long faccessat(int dir, const char *path, int mode);
long mkdirat(int dir, const char *path, int mode);
long unlinkat(int dir, const char *path, int flags);
long renameat(int from, const char *path, int to, const char *new_path);
long linkat(int from, const char *path, int to, const char *new_path, int flags);
long symlinkat(const char *target, int dir, const char *path);
long fchmod(int fd, int mode);
long ftruncate(int fd, long bytes);
long fallocate(int fd, int mode, long offset, long bytes);
long fsync(int fd);
long fdatasync(int fd);

/*
 * Sockets, where there are some: of AF_INET and AF_INET6, SOCK_STREAM and SOCK_DGRAM. Options are
 * those that are an int. Addresses that one need not have may be null.
 */
long socket(int domain, int type, int protocol);
long bind(int fd, const void *address, unsigned int bytes);
long listen(int fd, int backlog);
long accept4(int fd, void *address, void *bytes, int flags);
long connect(int fd, const void *address, unsigned int bytes);
long shutdown(int fd, int how);
long sendto(int fd, const void *from, tane_size bytes, int flags, const void *to, unsigned int n);
long recvfrom(int fd, void *to, tane_size bytes, int flags, void *by, void *n);
long getsockname(int fd, void *address, void *bytes);
long getpeername(int fd, void *address, void *bytes);
long setsockopt(int fd, int level, int option, const void *value, unsigned int bytes);
long getsockopt(int fd, int level, int option, void *value, void *bytes);
long poll(void *fds, unsigned long count, int milliseconds);
/* F_GETFL, and F_SETFL of O_NONBLOCK. */
long fcntl(int fd, int command, long flags);

#endif

/*
 * Of a kernel, where read() is allowed. As pread(), but nothing is copied: *view is where the
 * bytes are in the kernel's cache of the file, to be read only, and the result how many; 0 at
 * the file's end. Their pages are there until tane_release(), and to the instance's end at most;
 * a trap gives all of them back. What becomes of the file can be seen meanwhile: bytes that
 * are written, and where it was made shorter nothing, so that an access is a trap, Memory. Where
 * a function of the host's has looked at what there is no more, the module sees zeroes as well.
 *
 * Having them there takes about as long as reading them does, the first time. It is for what is
 * looked at more than once, or in few places: lend all of that at once. At most 64 views and a
 * gibibyte at a time (-ENOMEM). What the disk does not give is -EIO.
 */
long tane_lend(int fd, const void **view, tane_size bytes, long at);
long tane_release(const void *view);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tane.h: Linux as a library.
 *
 * A real Linux kernel runs inside the calling process, without privileges and
 * without a virtual machine. This header is the whole C interface: boot a
 * kernel, give it disks, mount what is on them, use the files, or make any
 * Linux system call.
 *
 * Rules that hold for every call unless it says otherwise:
 *
 * - Calls that can fail return a negative Linux errno on failure (-ENOENT is
 *   -2 on every host). The caller MAY then read tane_error_message(). Handles
 *   and results that a failed call would have given are left untouched.
 * - All sizes and offsets are in bytes.
 * - Paths are NUL-terminated bytes of any encoding. Inside a mount they start
 *   at its root, with or without a leading slash; symbolic links and ".." in
 *   them WILL NOT lead out of it.
 * - Any thread may make any call at any time. The calls that end a handle are
 *   the exception: the caller MUST NOT use that handle in or after them. All
 *   of them accept NULL and then do nothing.
 * - A handle keeps alive what it belongs to: handles MAY be ended in any order.
 * - Structures that start with a size: the caller MUST set it to the sizeof of
 *   the structure. Fields that a later version adds mean their default when
 *   they lie behind that size, and 0 always means the default; start from
 *   { .size = sizeof(...) }. Sizes that this library does not know are -EINVAL.
 * - Once a kernel has died or was halted, its calls return -ESHUTDOWN.
 * - A pointer that a call says it needs MUST NOT be NULL; if it is, the call
 *   returns -EFAULT.
 *
 * Constants of Linux (O_, S_, AT_, FALLOC_FL_, RENAME_, SEEK_, XATTR_) have
 * their x86-64 values on every host.
 */
#ifndef TANE_H
#define TANE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of this interface. Versions with the same major number are
 * compatible: a program runs with any library that is at least as new.
 */
#define TANE_VERSION_MAJOR 0
#define TANE_VERSION_MINOR 1

/* The library's version: major << 16 | minor. Cannot fail. */
uint32_t tane_version(void);

/*
 * Why the last failed call of this thread failed: one line of UTF-8 for people,
 * with the operation, the path and what the kernel said. Never NULL; "" if no
 * call has failed. Valid until this thread's next call that fails.
 */
const char *tane_error_message(void);

/* ---- kernels ---- */

struct tane_kernel;

struct tane_kernel_options {
	size_t size;
	/*
	 * The kernel image. NULL: the environment variable TANE_IMAGE, else
	 * tane-default.elf or tane-tiny.elf beside the program, or in
	 * ../lib/tane or ../share/tane from there.
	 */
	const char *image;
	/* The kernel's memory, taken from the host as it is touched; 0: 256 MiB. */
	uint64_t memory;
	/* Virtual CPUs; 0: 1. More take an image that was built for them. */
	uint32_t cpus;
	/* TANE_KERNEL_ bits. */
	uint32_t flags;
	/* Words for the kernel command line, or NULL. */
	const char *cmdline;
	/*
	 * Gets the kernel's log as it is written, or NULL: len bytes at text, not
	 * terminated. Called on any thread, from within the kernel: it MUST be
	 * quick and MUST NOT call this library.
	 */
	void (*log)(void *log_arg, const char *text, size_t len);
	void *log_arg;
};

/* Load the image at the same address each time, for debugging. */
#define TANE_KERNEL_NOKASLR 1
/*
 * Children of fork(2) go on using the kernel, each as a Linux process of its own, a copy
 * of its parent's: pipes, files and wait4(2) work between them (docs/processes.md). In
 * children that use another kernel, all calls return -ENOTSUP. A child MUST leave by
 * _exit(2), and MUST NOT close its parent's handles or descriptors that it did not open.
 */
#define TANE_KERNEL_SHARED 2

/*
 * Boot a kernel; some milliseconds. options MAY be NULL: all defaults.
 * On success returns 0 and *kernel, which the caller ends with
 * tane_kernel_close().
 *
 * -ENOENT   there is no image
 * -ENOEXEC  the file is not an image that this library can load
 * -EINVAL   the options cannot be met
 * -ENOMEM   the host has no memory for it
 * -EIO      the kernel died while booting
 */
int tane_kernel_boot(const struct tane_kernel_options *options,
		     struct tane_kernel **kernel);

/*
 * End the handle. The kernel itself ends with the last handle that belongs to
 * it; its memory is given back to the host.
 */
void tane_kernel_close(struct tane_kernel *kernel);

/*
 * End the kernel now, without a sync, as a power cut would. Calls under way and
 * later ones return -ESHUTDOWN. The handle stays valid.
 */
void tane_kernel_halt(struct tane_kernel *kernel);

/*
 * The Linux process of the child that the calling thread's last fork(2) made, for
 * wait4(2) by tane_syscall().
 *
 * -EAGAIN   the kernel had no room for it
 * -ENOTSUP  the kernel is not shared, or this thread never forked
 */
int tane_kernel_forked(const struct tane_kernel *kernel);

/* 1 if calls have an effect, 0 if the kernel has died or was halted. */
int tane_kernel_is_alive(const struct tane_kernel *kernel);

/*
 * Give memory back to the host: what is cached of files and names and could be read again
 * is forgotten, and all that is free becomes the host's. What is written and not yet on
 * its disk stays: sync before to have more go. A tenth of a second for a hundred megabytes
 * on a busy machine; calls of other threads go on. What Linux frees goes back within some
 * seconds without this, but for small pieces.
 *
 * -ENOENT      the kernel image cannot do it
 * -EPERM       this thread's task inside has given up its privileges
 * -ESHUTDOWN   the kernel has ended
 */
int tane_kernel_trim(struct tane_kernel *kernel);

/*
 * Copy the kernel's log to buf: at most len - 1 bytes and a NUL. Returns the
 * length of the whole log without the NUL, so that a result of at least len
 * says that buf was too small. len MAY be 0, buf then NULL.
 */
int64_t tane_kernel_dmesg(const struct tane_kernel *kernel, char *buf,
			  size_t len);

/*
 * Why the kernel died: after a panic or fault the text of its oops. Otherwise
 * like tane_kernel_dmesg().
 */
int64_t tane_kernel_last_words(const struct tane_kernel *kernel, char *buf,
			       size_t len);

/*
 * A state of a kernel that it can go back to, with what is mounted and open and what its
 * disks hold. It keeps the kernel alive.
 */
struct tane_checkpoint;

/*
 * Remember what the kernel is now. The first checkpoint of a kernel copies its memory,
 * some milliseconds; later ones copy what was written since. Checkpoints MAY be made
 * while there are others. Calls of other threads are waited for, and new ones wait
 * meanwhile; functions of the caller's own disks MUST NOT call this. On success returns 0
 * and *checkpoint, which the caller ends with tane_checkpoint_close().
 *
 * Disks must be able to go back: those of tane_disk_ram(), those with TANE_DISK_SNAPSHOT
 * or TANE_DISK_READ_ONLY, images with an overlay in memory or without TANE_IMAGE_WRITE.
 *
 * -EBUSY       a call of another thread waits for something inside, requests to disks do
 *              not end, or programs run
 * -ENOTSUP     a disk or network card cannot go back (the message names it), or the kernel
 *              is shared or runs in a process of its own
 * -EDEADLK     called by what the kernel calls
 * -ESHUTDOWN   the kernel has ended
 */
int tane_checkpoint(struct tane_kernel *kernel,
		    struct tane_checkpoint **checkpoint);

/*
 * Be again what the kernel was at this checkpoint, in less than a millisecond as a rule.
 * The checkpoint stays and MAY be gone back to again; newer ones are none any more. What
 * was synced since is undone as well. Handles from before go on at the position they had,
 * unless they were ended since; files opened since answer -EBADF, and mappings made
 * since -ESTALE: the caller still ends these handles, before or after. Time goes on;
 * random numbers may come a second time.
 *
 * -EINVAL      the checkpoint is of another kernel
 * -ESTALE      the kernel has gone back to an older one
 * -EBUSY       a disk was added or removed since; or as tane_checkpoint()
 * others       as tane_checkpoint()
 *
 * The kernel is as it was before the call then; if the host refuses memory half-way it is
 * ended, and the message says so.
 */
int tane_rollback(struct tane_kernel *kernel,
		  const struct tane_checkpoint *checkpoint);

/* Forget the state. The kernel stays as it is. */
void tane_checkpoint_close(struct tane_checkpoint *checkpoint);

/* A recording of the functions that a kernel's calls go through. */
struct tane_trace;

struct tane_trace_options {
	size_t size;
	/*
	 * Only what happens inside of this function, or of functions that match a
	 * pattern with asterisks; NULL: everything.
	 */
	const char *function;
	/* Bytes of the kernel's memory for the record, on each CPU; 0: 4 MiB. */
	uint64_t buffer;
	/* Only so many levels of calls; 0: all. */
	uint32_t depth;
	uint32_t reserved;
};

/* One call of a function of the kernel's. */
struct tane_traced {
	size_t size;
	/* What it is called there. Valid as long as the trace. */
	const char *function;
	/* The kernel's thread that called. */
	uint64_t thread;
	/* When it began, in ns since the kernel booted. */
	uint64_t start;
	/* How long it took, in ns, and without the calls in it. */
	uint64_t duration;
	uint64_t own;
	/* How many recorded calls are around it. */
	uint32_t depth;
	/* The errno that it returned, or 0. Of functions without a result: any. */
	int32_t error;
};

/*
 * Record the calls of this process's threads from now on; docs/lab.md has what that is
 * worth. The kernel's image must be lab, which changes its own code for it: not in a jail.
 * options MAY be NULL. On success returns 0 and *trace, which the caller ends with
 * tane_trace_close().
 *
 * -ENOTSUP  the image has no tracers, or the kernel runs in a process of its own
 * -EINVAL   there is no such function, or it cannot be traced
 * -EBUSY    there is a trace of this kernel already
 */
int tane_trace_start(struct tane_kernel *kernel,
		     const struct tane_trace_options *options,
		     struct tane_trace **trace);

/*
 * End the recording; how many calls it has. Twice is the same. -EIO if the record cannot
 * be read.
 */
int64_t tane_trace_stop(struct tane_trace *trace);

/*
 * The call with this number, from 0, in the order in which those of a thread began, one
 * thread after the other; what is in a call follows it. -EINVAL if there is none, or the
 * recording has not ended.
 */
int tane_trace_call(const struct tane_trace *trace, uint64_t number,
		    struct tane_traced *call);

/*
 * How many records had no room, of which each call takes one or two; after
 * tane_trace_stop().
 */
int64_t tane_trace_lost(const struct tane_trace *trace);

/* Take the tracer out of the kernel, and forget what was recorded. */
void tane_trace_close(struct tane_trace *trace);

/*
 * Any Linux system call: x86-64 numbers and structures, unused arguments 0,
 * pointers as numbers. Returns what Linux returns, or a negative errno, for
 * which there is no error message. Blocks the calling thread when Linux blocks.
 *
 * Descriptors are the kernel's, not the host's; so are paths, and those start
 * at the kernel's own root. The kernel reads and writes what the arguments
 * point to: the caller MUST own that. A pointer to nowhere is -EFAULT. exit(2)
 * ends the kernel's task of the calling thread, whose later calls are -ESRCH.
 */
int64_t tane_syscall(struct tane_kernel *kernel, int64_t nr, uint64_t arg0,
		     uint64_t arg1, uint64_t arg2, uint64_t arg3,
		     uint64_t arg4, uint64_t arg5);

/* ---- disks ---- */

struct tane_disk;

struct tane_disk_options {
	size_t size;
	/* TANE_DISK_ bits. */
	uint32_t flags;
	uint32_t reserved;
	/* Up to 20 bytes, shown in /sys/block/vdX/serial; or NULL. */
	const char *serial;
};

/* Open the image for reading only, and refuse writes. */
#define TANE_DISK_READ_ONLY 1
/*
 * Open the image for reading only, and keep what is written in memory until
 * the disk goes away.
 */
#define TANE_DISK_SNAPSHOT 2
/* Go past the host's page cache. */
#define TANE_DISK_DIRECT 4

/*
 * Give a kernel the disk image at path: a file or block device of the host,
 * which is locked against other users. options MAY be NULL. On success returns
 * 0 and *disk, which the caller ends with tane_disk_close(). The disk and its
 * partitions have their device nodes by then.
 *
 * -ENOSPC   the kernel has as many disks as it can have
 * others    what the host says about the file
 */
int tane_disk_open(struct tane_kernel *kernel, const char *path,
		   const struct tane_disk_options *options,
		   struct tane_disk **disk);

/*
 * A disk that the caller implements. The functions return 0 or a negative
 * errno; a transfer moves all len bytes or fails. They are called on threads of
 * the library, several at once: they MUST be thread-safe, MAY block, and MUST
 * NOT call this library for the same kernel. They are called until the disk has
 * gone away; release() is the last call.
 */
struct tane_block_ops {
	size_t size;
	/* The disk's capacity, a multiple of 512. */
	uint64_t capacity;
	/* Read len bytes at offset into buf. Needed. */
	int (*read)(void *arg, void *buf, size_t len, uint64_t offset);
	/* Write len bytes at offset. NULL: the disk is read-only. */
	int (*write)(void *arg, const void *buf, size_t len, uint64_t offset);
	/*
	 * Return when everything written before has become durable. NULL: writes
	 * are durable when write() returns.
	 */
	int (*flush)(void *arg);
	/* The content of this range does not matter any more. MAY be NULL. */
	int (*discard)(void *arg, uint64_t offset, uint64_t len);
	/* Nothing will be called any more. MAY be NULL. */
	void (*release)(void *arg);
	/* First argument of all of them. */
	void *arg;
};

/*
 * Like tane_disk_open(), with a disk that the caller implements. The structure
 * is copied. If the call fails, release() WILL NOT be called.
 */
int tane_disk_add(struct tane_kernel *kernel, const struct tane_block_ops *ops,
		  const struct tane_disk_options *options,
		  struct tane_disk **disk);

/*
 * Like tane_disk_open(), with a disk of memory: size bytes, all zero. It takes
 * memory where it is written first, gives it back where it is discarded and
 * when it goes away, and may be larger than memory: what has no room is an I/O
 * error inside the kernel.
 */
int tane_disk_ram(struct tane_kernel *kernel, uint64_t size,
		  const struct tane_disk_options *options,
		  struct tane_disk **disk);

/*
 * The disk's device node inside the kernel, such as "/dev/vda". Valid as long
 * as the handle. Cannot fail.
 */
const char *tane_disk_device(const struct tane_disk *disk);

/* The disk's size as the kernel has it. */
int64_t tane_disk_size(const struct tane_disk *disk);

struct tane_partition {
	size_t size;
	/* Its number in the table, from 1. */
	uint32_t number;
	uint32_t read_only;
	uint64_t start;
	uint64_t length;
	/* Its device node inside the kernel, such as "/dev/vda1". */
	char device[64];
	/* The name that a GPT gives it, or "". */
	char name[128];
};

/*
 * Describe up to count partitions, ordered by number, at partitions, an array
 * of structures that each have their size set. Returns how many the disk has,
 * which MAY be more than count; count MAY be 0.
 */
int tane_disk_partitions(const struct tane_disk *disk,
			 struct tane_partition *partitions, size_t count);

/*
 * End the handle. The kernel loses the disk with its last mount, or now if it
 * has none. Data that was not synced is written first, but only
 * tane_unmount() reports errors of that.
 */
void tane_disk_close(struct tane_disk *disk);

struct tane_filesystem {
	size_t size;
	/*
	 * The type, as tane_mount() takes it. For what cannot be mounted, as
	 * blkid(8) says it: "swap", "crypto_LUKS", "LVM2_member".
	 */
	char type[32];
	/* The name and identity of the file system, or "". */
	char label[256];
	char uuid[64];
};

/*
 * Recognise what is on a device inside the kernel, such as "/dev/vda1". Returns
 * 1 and fills *filesystem in, or 0 if nothing known is there.
 */
int tane_probe(struct tane_kernel *kernel, const char *device,
	       struct tane_filesystem *filesystem);

/* ---- mounts ---- */

struct tane_mount;

struct tane_mount_options {
	size_t size;
	/* TANE_MOUNT_ bits. */
	uint32_t flags;
	uint32_t reserved;
	/* Such as "ext4" or "tmpfs"; NULL: recognised from the content. */
	const char *type;
	/* As in fstab(5), such as "noload,commit=60"; or NULL. */
	const char *options;
};

/* Refuse writes. A journal MAY be replayed, unless the disk is read-only. */
#define TANE_MOUNT_READ_ONLY 1
/* Let device nodes of the image be opened. */
#define TANE_MOUNT_DEVICES 2
/* Let programs of the image be executed, and set-uid bits count. */
#define TANE_MOUNT_EXEC 4
/* Let reading change access times, as Linux does by default. */
#define TANE_MOUNT_ATIME 8

/*
 * Mount a device inside the kernel, such as tane_disk_device(), or for a file
 * system without a device any word. options MAY be NULL. On success returns 0
 * and *mount, which the caller ends with tane_unmount().
 *
 * -ENODEV     the kernel does not know the type
 * -ENOMEDIUM  the type was not recognised
 * -EACCES     the disk is read-only and TANE_MOUNT_READ_ONLY was not given
 * -EINVAL, -EUCLEAN  the content is not of the type, or is damaged
 */
int tane_mount(struct tane_kernel *kernel, const char *source,
	       const struct tane_mount_options *options,
	       struct tane_mount **mount);

/*
 * Write everything back, unmount, and end the handle, whatever the result.
 *
 * -EBUSY  files of it are still open, or it is shown to the host; everything was
 *         written, and the file system goes away with the last of them
 * others  a write failed since the mount; the data may be incomplete
 */
int tane_unmount(struct tane_mount *mount);

/*
 * Where it is inside the kernel, for tane_syscall(). Valid as long as the
 * handle. Cannot fail.
 */
const char *tane_mount_point(const struct tane_mount *mount);

/* An O_PATH descriptor of its root, for tane_syscall(). Cannot fail. */
int tane_mount_fd(const struct tane_mount *mount);

/* Write everything back to the disk; syncfs(2). */
int tane_sync(struct tane_mount *mount);

struct tane_statfs {
	size_t size;
	/* The magic number of its type. */
	uint64_t magic;
	uint64_t block_size;
	uint64_t total;
	uint64_t free;
	/* What is free and not reserved for root. */
	uint64_t available;
	/* Inodes; 0 if it does not count them. */
	uint64_t files;
	uint64_t files_free;
	uint32_t name_max;
	uint32_t read_only;
};

/* How full the file system is. */
int tane_statfs(struct tane_mount *mount, struct tane_statfs *statfs);

/* ---- mounts that the host sees ---- */

/*
 * A mount that the host's kernel shows at one of its directories, by FUSE: all programs
 * see the files. Threads of this process answer for it, so that it ends with the process.
 */
struct tane_host_mount;

struct tane_host_mount_options {
	size_t size;
	/* TANE_HOST_MOUNT_ bits. */
	uint32_t flags;
	uint32_t reserved;
	/* A directory of the mount to be shown in place of its root, or NULL. */
	const char *directory;
	/* What the host's lists of mounts have as the device; NULL: "tane". */
	const char *source;
};

/*
 * Let other users in, with the permissions in the image. Without it, whoever mounts is
 * root there, and alone; but if root mounts, others are always let in.
 */
#define TANE_HOST_MOUNT_ALLOW_OTHER 1
/*
 * Once all files were found to have no extended attributes, say that these are not
 * supported, in place of giving empty lists: copying is faster then, and some programs
 * take it for an error. Without effect on a mount that can be written.
 */
#define TANE_HOST_MOUNT_XATTRS_IF_ANY 2

/*
 * Show a mount at point, an existing directory of the host. The host's programs MAY write
 * if the mount can be written. options MAY be NULL. On success returns 0 and *shown, which
 * the caller ends with tane_host_mount_close().
 *
 * The kernel is in this process or in a worker: of a worker's the threads here ask the
 * worker, and none of its answers can do more than be wrong. interrupted of struct
 * tane_worker_options is not asked for them.
 *
 * While it is shown, what this process changes through the mount MAY be seen late or not
 * at all by the host's programs, and tane_unmount() of it is -EBUSY. The handle keeps the
 * mount alive. Calls of a child of fork(2) with it are -ENOTSUP, and what it ends stays;
 * until it has ended or executed a program, the mount does not end with its parent.
 *
 * -ENOENT   point, directory or /dev/fuse is not there; or fusermount3 is not, which who
 *           is not root needs: the message says which
 * -ENOTDIR  point is no directory
 * -ENOTCONN on point is a mount whose process is gone
 * -EACCES, -EPERM  this user, or this container, may not open /dev/fuse or mount
 * -EAGAIN   there can be no more threads
 */
int tane_host_mount(struct tane_mount *mount, const char *point,
		    const struct tane_host_mount_options *options,
		    struct tane_host_mount **shown);

/* point under its full name. Valid as long as the handle. NULL only for NULL. */
const char *tane_host_mount_point(const struct tane_host_mount *shown);

/*
 * Unmount it, and wait until nothing of it is under way: all that the host's programs
 * wrote has come to the mount then, and tane_unmount() brings it into the image. It is no
 * error if somebody else (umount(8)) was faster. The handle stays.
 *
 * -EBUSY  something in it is open, or somebody's working directory; it is shown as before
 * others  as tane_host_wait()
 */
int tane_host_unmount(struct tane_host_mount *shown);

/*
 * Wait until it has been unmounted, by whomever, for so many milliseconds; less than 0:
 * for ever. Threads MAY wait while another one unmounts.
 *
 * -ETIMEDOUT  it is still mounted
 * others      it could not be served to the end; nobody can see it any more
 */
int tane_host_wait(struct tane_host_mount *shown, int64_t milliseconds);

/*
 * End the handle. What is still mounted goes from view at once, and from the process when
 * nobody has anything in it open any more.
 */
void tane_host_mount_close(struct tane_host_mount *shown);

/* ---- images ---- */

/*
 * An image as the tane command opens one: its container is told by its content,
 * partitions, LUKS, LVM2, RAID and btrfs in it are put together, and a selector
 * says which file system is meant.
 */
struct tane_image;

struct tane_secret {
	const void *data;
	size_t len;
};

/* How the process that serves an image is started. */
struct tane_worker_options {
	size_t size;
	/*
	 * Its program. NULL: the environment variable TANE_WORKER, else tane-worker
	 * beside this program or library, or in tane, ../lib/tane or ../share/tane
	 * from there.
	 */
	const char *program;
	/*
	 * As in struct tane_kernel_options. Without an image, tane-tiny.elf serves
	 * what it knows, if it is there too.
	 */
	const char *image;
	const char *cmdline;
	uint64_t memory;
	/* The most private memory of the process, beside that; 0: 4 GiB. */
	uint64_t memory_limit;
	/*
	 * It is killed so many milliseconds after it started, and what was not synced
	 * is lost; 0: never.
	 */
	uint64_t milliseconds;
	uint32_t cpus;
	uint32_t reserved;
	/*
	 * Asked some fifty times a second by each thread whose call waits for the
	 * worker, on that thread. When it returns something else than 0 the call is
	 * given up and returns -EINTR: the worker MAY still carry it out, and the
	 * position of a file that was read or written is unknown. It MAY call this
	 * library. The argument MUST stay valid until the last handle that belongs to
	 * the image is closed. NULL: calls wait as long as the worker lives.
	 */
	int (*interrupted)(void *interrupted_arg);
	void *interrupted_arg;
};

/*
 * How an image is opened. Rust's ImageOptions, Python's and Go's have the same
 * fields.
 */
struct tane_image_options {
	size_t size;
	/* TANE_IMAGE_ bits. */
	uint32_t flags;
	/*
	 * The sectors of the disk that the image is of, if they are not 512 bytes:
	 * 1024, 2048 or 4096. A partition table counts in them. 0: 512.
	 */
	uint32_t sector_size;
	/* "raw", "qcow2", "vmdk", ...; NULL: told by the content. */
	const char *format;
	/*
	 * Put what is written into this qcow2 file; ":memory:" keeps it in memory
	 * and forgets it at the end. Or NULL.
	 */
	const char *overlay;
	/*
	 * Files and directories that the image MAY name as its backing file or
	 * extents, beside those in its own directory: a list that ends with a NULL,
	 * or NULL.
	 */
	const char *const *trust;
	/*
	 * Further images of the same machine: such a list, or NULL. Other disks of
	 * its LVM group, RAID set or btrfs, or the one with its hashes.
	 */
	const char *const *with;
	/*
	 * Passphrases and keys, each for any LUKS or BitLocker volume that it opens
	 * (docs/cli.md), and any image that is encrypted as a whole.
	 */
	const struct tane_secret *secrets;
	size_t secret_count;
	/*
	 * Gets sentences for people about what takes long or room, or NULL: len
	 * bytes at text, not terminated. Called from within tane_image_open().
	 */
	void (*notice)(void *notice_arg, const char *text, size_t len);
	void *notice_arg;
	/* For an image without a kernel in this process; NULL: all defaults. */
	const struct tane_worker_options *worker;
	/*
	 * Images below this one, the topmost first, each as IMAGE or IMAGE@SELECTOR:
	 * what tane_image_mount() shows are the files of all of them as one, by
	 * overlayfs, for reading. A list that ends with a NULL, or NULL.
	 */
	const char *const *lower;
	/*
	 * Have dm-verity check what this root hash is of: the hexadecimal digits
	 * that veritysetup(8) prints, and if the hashes are behind the data
	 * ",offset=BYTES"; else they are on another volume. Or NULL.
	 */
	const char *verity;
};

/* Write to the image. Without it no byte of the image changes. */
#define TANE_IMAGE_WRITE 1

/*
 * Open the image that path names: a file, or an address that starts with "http://"
 * or "https://" (docs/cli.md). "IMAGE@SELECTOR" says which file system
 * tane_image_mount() mounts without a selector; "OUTER:/IMAGE" and
 * "OUTER@SELECTOR:/IMAGE" name an image that is a file in another one, for which
 * further kernels are booted in the same process. A file of the host is meant by
 * its full name before any of that. options MAY be NULL. On success returns 0 and
 * *image, which the caller ends with tane_image_close().
 *
 * If kernel is NULL, the image gets a kernel of its own in a worker: a process that
 * is jailed (tane_jail()) before it opens the image, and tighter before Linux sees
 * it. All calls on the image, its mounts and their files are then made there. What
 * differs:
 *
 * - Kernel memory has no place in this process: tane_map(), tane_buffer_alloc(),
 *   tane_fdopen() and tane_syscall() are -EOPNOTSUPP. Buffers MUST be memory of the
 *   caller.
 * - When the worker has died, calls return -ESHUTDOWN, and the message says of what.
 *   One that does not answer keeps calls waiting: see interrupted and milliseconds.
 * - What the worker answers is checked: what cannot be is -EIO. Names in directories
 *   are such as a directory can hold.
 * - An image on a server is read by a third process, which has the network and no
 *   kernel; the worker has no network.
 * - The worker is a child of this process, in a process group of its own. It ends
 *   with the last handle that belongs to it, and with this process. wait(2) for any
 *   child may tell of it.
 * - A child of fork(2) cannot use it: -ENOTSUP.
 *
 * -ENOENT, -EISDIR, -EINVAL  it cannot be an image
 * -EINVAL                    an option that is none, or that excludes another
 * -EBUSY, -EAGAIN            another program has it
 * -ENOENT, -ENOEXEC          of a worker: its program is missing, or of another
 *                            version
 * -EPERM                     of a worker: the jail cannot be set up
 * others                     what the host or its container says
 */
int tane_image_open(struct tane_kernel *kernel, const char *path,
		    const struct tane_image_options *options,
		    struct tane_image **image);

/*
 * Mount the file system that selector means, or with NULL the one that the image's
 * name said, else the only one; read-only unless the image is open with TANE_IMAGE_WRITE. A selector is what an address
 * has between "@" and ":/". options MAY be NULL. On success returns 0 and *mount,
 * which the caller ends with tane_unmount().
 *
 * -EINVAL    that is no selector, or as for tane_mount()
 * -ENOTUNIQ  several file systems fit; the message lists their selectors
 * -ENOKEY    an encrypted volume is locked
 * -ENXIO     no file system fits
 * others     as for tane_mount()
 */
int tane_image_mount(struct tane_image *image, const char *selector,
		     const struct tane_mount_options *options,
		     struct tane_mount **mount);

/* Kinds of volumes. */
#define TANE_VOLUME_DISK 0
#define TANE_VOLUME_PARTITION 1
#define TANE_VOLUME_LUKS 2
#define TANE_VOLUME_LOGICAL 3
#define TANE_VOLUME_RAID 4
#define TANE_VOLUME_VERITY 5
#define TANE_VOLUME_BITLOCKER 6

/* A file system is on it. */
#define TANE_VOLUME_MOUNTABLE 1
/* It is encrypted, and no secret that was given opens it. */
#define TANE_VOLUME_LOCKED 2

struct tane_volume {
	size_t size;
	/* TANE_VOLUME_DISK and so on. */
	uint32_t kind;
	/* TANE_VOLUME_MOUNTABLE, TANE_VOLUME_LOCKED. */
	uint32_t flags;
	/* Of a partition: its number in the table, from 1. */
	uint32_t partition;
	uint32_t reserved;
	/* Of a partition: where it starts on its disk. */
	uint64_t start;
	uint64_t length;
	/* What tane_image_mount() takes; "" for a whole disk: NULL. */
	char selector[320];
	/* What is on it, as blkid(8) calls it; "" if nothing known. */
	char type[32];
	char label[256];
	/* Of the file system, else of the volume. */
	char uuid[64];
	/* In a GPT, of a logical volume ("group/name"), of a set. */
	char name[320];
	/* Why nothing that lies on it is shown, though something may, or what it does
	   without; or "". */
	char note[256];
};

/*
 * Describe up to count volumes at volumes, an array of structures that each have
 * their size set; what lies on another comes after it. Returns how many there
 * are, which MAY be more than count; count MAY be 0.
 */
int tane_image_volumes(struct tane_image *image, struct tane_volume *volumes,
		       size_t count);

/* End the handle. The image stays open as long as a mount of it. */
void tane_image_close(struct tane_image *image);

/*
 * The kernel that serves the image, as a handle of its own, which the caller ends
 * with tane_kernel_close().
 */
int tane_image_kernel(struct tane_image *image, struct tane_kernel **kernel);

/* The process id of its worker; 0 if its kernel is in this process. */
int tane_image_worker(const struct tane_image *image);

/* Where the parts of an address are in its text. */
struct tane_address {
	size_t size;
	/* The image's name is the first image_len bytes. */
	size_t image_len;
	/* The selector; a length of 0 if there is none. */
	size_t selector;
	size_t selector_len;
	/* The path, to the end of the text; at its end if there is none: "/". */
	size_t path;
};

/* "IMAGE" alone is an address, and a path on the host is -EINVAL. */
#define TANE_ADDRESS_IMAGES_ONLY 1

/*
 * Take "IMAGE:/path" or "IMAGE@SELECTOR:/path" apart by the rules of the tane
 * command, which look at what files there are on the host. Returns 1 and fills
 * *address in, or 0 for a path on the host.
 *
 * -EINVAL  what follows an image's name and "@" is no selector
 */
int tane_address(const char *text, uint32_t flags,
		 struct tane_address *address);

/* ---- paths ---- */

/* Mean the last name of a path itself, and not what it links to. */
#define TANE_NOFOLLOW 1

struct tane_timestamp {
	/* Seconds since 1970 in UTC, rounded down. */
	int64_t seconds;
	/* 0 to 999999999. For tane_utimens() also TANE_TIME_. */
	uint32_t nanoseconds;
	uint32_t reserved;
};

/* Set this time to now; leave this time alone. */
#define TANE_TIME_NOW 0x3fffffff
#define TANE_TIME_KEEP 0x3ffffffe

struct tane_stat {
	size_t size;
	uint64_t ino;
	/* Device numbers as makedev(3) makes them on Linux. */
	uint64_t dev;
	uint64_t rdev;
	/* Bytes of content. */
	uint64_t length;
	/* Space taken, in units of 512 bytes. */
	uint64_t blocks;
	/* S_IFMT and permission bits. */
	uint32_t mode;
	uint32_t nlink;
	uint32_t uid;
	uint32_t gid;
	uint32_t block_size;
	/* 1: btime is known. */
	uint32_t has_btime;
	/* STATX_ATTR_ bits. */
	uint64_t attributes;
	struct tane_timestamp atime;
	struct tane_timestamp mtime;
	struct tane_timestamp ctime;
	struct tane_timestamp btime;
};

/* flags of these calls: 0 or TANE_NOFOLLOW. Otherwise as in section 2. */
int tane_stat(struct tane_mount *mount, const char *path, int flags,
	      struct tane_stat *stat);
int tane_chown(struct tane_mount *mount, const char *path, uint32_t uid,
	       uint32_t gid, int flags);
int tane_utimens(struct tane_mount *mount, const char *path,
		 const struct tane_timestamp *atime,
		 const struct tane_timestamp *mtime, int flags);

/* Modes are exact: there is no umask. */
int tane_chmod(struct tane_mount *mount, const char *path, uint32_t mode);
int tane_mkdir(struct tane_mount *mount, const char *path, uint32_t mode);
int tane_mknod(struct tane_mount *mount, const char *path, uint32_t mode,
	       uint64_t rdev);

int tane_truncate(struct tane_mount *mount, const char *path, uint64_t length);
int tane_link(struct tane_mount *mount, const char *path, const char *new_path);
int tane_symlink(struct tane_mount *mount, const char *target,
		 const char *path);
int tane_unlink(struct tane_mount *mount, const char *path);
int tane_rmdir(struct tane_mount *mount, const char *path);
/* Remove a directory with all below it; links are removed, not followed. */
int tane_remove_all(struct tane_mount *mount, const char *path);
/* flags: RENAME_ bits, or 0. */
int tane_rename(struct tane_mount *mount, const char *path,
		const char *new_path, uint32_t flags);

/*
 * Copy a link's target to buf: at most len - 1 bytes and a NUL. Returns the
 * whole length without the NUL, so that a result of at least len says that buf
 * was too small.
 */
int64_t tane_readlink(struct tane_mount *mount, const char *path, char *buf,
		      size_t len);

/*
 * Extended attributes; flags: 0 or TANE_NOFOLLOW. tane_getxattr() and
 * tane_listxattr() return the number of bytes; with a len of 0 nothing is
 * copied, otherwise -ERANGE says that buf is too small. A list is names, each
 * with a NUL. how: 0, XATTR_CREATE (1) or XATTR_REPLACE (2).
 */
int64_t tane_getxattr(struct tane_mount *mount, const char *path,
		      const char *name, void *buf, size_t len, int flags);
int64_t tane_listxattr(struct tane_mount *mount, const char *path, char *buf,
		       size_t len, int flags);
int tane_setxattr(struct tane_mount *mount, const char *path, const char *name,
		  const void *value, size_t len, int how, int flags);
int tane_removexattr(struct tane_mount *mount, const char *path,
		     const char *name, int flags);

/* ---- files ---- */

struct tane_file;

/*
 * Open a file. flags: O_ bits; mode: the exact permissions of a file that
 * O_CREAT makes, otherwise not looked at. On success returns 0 and *file, which
 * the caller ends with tane_close().
 */
int tane_open(struct tane_mount *mount, const char *path, int flags,
	      uint32_t mode, struct tane_file **file);

/*
 * Make a file of a descriptor that tane_syscall() gave, such as those of
 * io_uring_setup(2), memfd_create(2) and pipe(2): tane_map() makes the rings of an
 * io_uring memory of this process. On success returns 0 and *file, which the caller
 * ends with tane_close(), and the descriptor with it.
 *
 * -EBADF  there is no such descriptor
 */
int tane_fdopen(struct tane_kernel *kernel, int fd, struct tane_file **file);

/* End the handle. Errors of writing are tane_fsync()'s to report. */
void tane_close(struct tane_file *file);

/* The kernel's descriptor, for tane_syscall(). Cannot fail. */
int tane_fd(const struct tane_file *file);

/*
 * Read or write at the file's position, or at an offset. Returns how many bytes
 * were moved, which MAY be fewer than len; reading, 0 at the end of the file.
 */
int64_t tane_read(struct tane_file *file, void *buf, size_t len);
int64_t tane_write(struct tane_file *file, const void *buf, size_t len);
int64_t tane_pread(struct tane_file *file, void *buf, size_t len,
		   uint64_t offset);
int64_t tane_pwrite(struct tane_file *file, const void *buf, size_t len,
		    uint64_t offset);

/* whence: SEEK_SET 0, SEEK_CUR 1, SEEK_END 2, SEEK_DATA 3, SEEK_HOLE 4. */
int64_t tane_lseek(struct tane_file *file, int64_t offset, int whence);

/* What was written has reached the disk image when these return. */
int tane_fsync(struct tane_file *file);
int tane_fdatasync(struct tane_file *file);

int tane_fstat(struct tane_file *file, struct tane_stat *stat);
int tane_ftruncate(struct tane_file *file, uint64_t length);
/* mode: FALLOC_FL_ bits, or 0. */
int tane_fallocate(struct tane_file *file, int mode, uint64_t offset,
		   uint64_t len);

/*
 * What chattr(1) sets, of a file or directory: FS_ bits of linux/fs.h, and the
 * project it is counted for. Each pointer MAY be NULL. -ENOTTY or -EOPNOTSUPP
 * where the file system has none. Bits that a file system does not know it
 * refuses, or forgets: ask again.
 */
int tane_get_flags(struct tane_file *file, uint32_t *flags, uint32_t *project);
int tane_set_flags(struct tane_file *file, uint32_t flags);
int tane_set_project(struct tane_file *file, uint32_t project);

/*
 * A part of a file in blocks that other files may have too (a reflink), in bytes.
 * physical is where the blocks are, by the file system's own count: parts of two
 * files that overlap there have these blocks in common.
 */
struct tane_shared_part {
	uint64_t start;
	uint64_t len;
	uint64_t physical;
};

/*
 * Those of a file that end behind from, in order: their number, at most count, and
 * 0 if there are no more. -ENOTTY or -EOPNOTSUPP where the file system does not say
 * where its files lie. What is not written yet is shared with nobody.
 */
int64_t tane_shared_parts(struct tane_file *file, uint64_t from,
			  struct tane_shared_part *parts, size_t count);

/*
 * Read many files, whole, in one call: count files by path, into the len bytes at
 * buf, one behind the other. lengths[i] becomes the length of the file at
 * paths[i], or the negative errno of what went wrong with it, and then it takes
 * no room. Returns how many files that was done for: count, or fewer if the next
 * one is at least as long as what was left of buf.
 */
int64_t tane_read_files(struct tane_mount *mount, const char *const *paths,
			size_t count, void *buf, size_t len, int64_t *lengths);

/* ---- directories ---- */

struct tane_dir;

struct tane_dirent {
	size_t size;
	uint64_t ino;
	/* S_IFMT bits, such as S_IFREG; 0 if the directory does not say. */
	uint32_t type;
	/* Length of name, without the NUL. */
	uint32_t name_len;
	char name[256];
};

/*
 * Open a directory for listing. On success returns 0 and *dir, which the caller
 * ends with tane_closedir().
 */
int tane_opendir(struct tane_mount *mount, const char *path,
		 struct tane_dir **dir);

/* tane_entry_stat() tells of every entry, its links not followed. */
#define TANE_LIST_STAT 1
/*
 * All directories below follow, each before those in it; those that links lead to
 * are not among them. tane_readdir() returns 2 where one begins.
 */
#define TANE_LIST_WALK 2

/*
 * Like tane_opendir(), with more. flags: TANE_LIST_ bits. From a worker, hundreds
 * of entries come with each message, and all that flags ask for with them.
 */
int tane_list(struct tane_mount *mount, const char *path, uint32_t flags,
	      struct tane_dir **dir);

/*
 * About the entry that tane_readdir() gave last. -ENODATA: TANE_LIST_STAT was not
 * given, or the entry had gone.
 */
int tane_entry_stat(struct tane_dir *dir, struct tane_stat *stat);

/*
 * The directory that the entries are in now: the path that was given and, in a
 * walk, what is below it. Valid until the next tane_readdir(). NULL only for NULL.
 */
const char *tane_dir_path(const struct tane_dir *dir);

/*
 * Give the next entry; "." and ".." are left out. Returns 1, or 0 after the
 * last one. In a walk, 2 says that another directory begins, and gives nothing.
 */
int tane_readdir(struct tane_dir *dir, struct tane_dirent *entry);

/*
 * Give the names of many entries that follow in the directory at hand, each with a
 * NUL, one behind the other, into the len bytes at names; and the type of one after
 * the other into types, which has room for len / 2: DT_REG and so on, as in
 * readdir(3). Returns the length of the names. After 0 tane_readdir() says whether a
 * walk goes on.
 *
 * -EINVAL  len is less than 256, which is room for any name
 */
int64_t tane_read_names(struct tane_dir *dir, char *names, size_t len,
			unsigned char *types);

/* Start again at the first entry. */
int tane_rewinddir(struct tane_dir *dir);

void tane_closedir(struct tane_dir *dir);

/* ---- copies ---- */

/* The first thing that cannot be kept ends the copy, and is its error. */
#define TANE_COPY_STRICT 1
/* What is there already stays as it is. */
#define TANE_COPY_NO_CLOBBER 2
/* Make device nodes, which takes root on the host; else they are losses. */
#define TANE_COPY_DEVICES 4

/*
 * All zero is fine: set size to sizeof(struct tane_copy_options). arg is handed
 * to all three.
 *
 * progress is called now and then, by the calling thread or another but by one at
 * a time, with what is done and what there is to do, of which the latter may grow
 * meanwhile: it is 0 while it is counted. What it returns, if it is not 0, stops
 * the copy after the file at hand.
 *
 * loss and failure are called by the calling thread when the copy is over: for
 * each thing that a copied file does not have now (its owner, an attribute, what
 * made it a hard link), and for each file that was not copied. path is below
 * what was copied, "" being that itself; what and why are words for people;
 * error is an errno.
 */
struct tane_copy_options {
	size_t size;
	uint32_t flags;		/* TANE_COPY_ */
	uint32_t reserved;	/* 0 */
	int (*progress)(void *arg, uint64_t files, uint64_t bytes,
			uint64_t total_files, uint64_t total_bytes);
	void (*loss)(void *arg, const char *path, const char *what, int error);
	void (*failure)(void *arg, const char *path, const char *why,
			int error);
	void *arg;
};

/* What was copied. Set size before the call. */
struct tane_copied {
	size_t size;
	uint64_t files;
	uint64_t directories;
	uint64_t links;		/* further names of files */
	uint64_t others;	/* symlinks, devices and so on */
	uint64_t bytes;		/* of data; holes have none */
	uint64_t by_host;	/* those the host copied by itself */
	uint64_t skipped;	/* TANE_COPY_NO_CLOBBER */
	uint64_t losses;
	uint64_t failures;
	int32_t stopped;	/* why the rest was not tried; or 0 */
	uint32_t reserved;
};

/*
 * Copy a file or a tree with all that belongs to it: owners, modes, times,
 * attributes, ACLs, flags, holes, hard links. to is what the copy is called; the
 * directory it goes into must be there. A directory that is there is added to, a
 * file is replaced once its copy is complete. Symlinks are copied themselves,
 * and those below to are not followed. What is copied into a mount is written
 * back. options and copied may be NULL.
 *
 * The files of the host are read and written by this process. Of a mount of a
 * worker the copy is made in this process too, and its Linux stays there.
 *
 * Returns 0 if all of it was copied, be it with losses. Else the error of the
 * first file that was not; the others were tried, unless nothing more could be
 * written.
 *
 * -ECANCELED  progress stopped it, or the interrupted of tane_image_options a
 *	       call that it made: whatever else went wrong, and also if that was
 *	       said when all had been copied
 * -EEXIST, -EISDIR, -ENOTDIR  something else is there
 * -EINVAL  to has no last name, and is not the root of a mount
 */
int tane_copy_out(struct tane_mount *mount, const char *source, const char *to,
		  const struct tane_copy_options *options,
		  struct tane_copied *copied);
int tane_copy_in(struct tane_mount *mount, const char *source, const char *to,
		 const struct tane_copy_options *options,
		 struct tane_copied *copied);
int tane_copy_across(struct tane_mount *from, const char *source,
		     struct tane_mount *mount, const char *to,
		     const struct tane_copy_options *options,
		     struct tane_copied *copied);

/* ---- making images ---- */

/* Nothing is made if anything had to be left behind. */
#define TANE_MAKE_STRICT 1
/* Replace the image if it is there; a symlink stays, what it leads to is replaced. */
#define TANE_MAKE_FORCE 2
/* All files get the time of epoch, not only newer ones. */
#define TANE_MAKE_ALL_TIMES 4
/* epoch is set; else it is the newest modification of a file. */
#define TANE_MAKE_EPOCH 8

/*
 * All zero is fine: set size to sizeof(struct tane_make_options). What is NULL or 0
 * is as "tane make-image" has it without the option of that name (docs/cli.md).
 * Lists end with a NULL. progress, loss and failure are as those of
 * struct tane_copy_options; paths are those in the image.
 */
struct tane_make_options {
	size_t size;
	uint32_t flags;			/* TANE_MAKE_ */
	uint32_t sector_size;		/* of the disk, in bytes; 0: 512 */
	/* ext2 to ext4, xfs, btrfs, f2fs, vfat, squashfs, erofs; NULL: ext4, or as the file
	   that describes a disk says */
	const char *fs;
	uint64_t image_size;		/* in bytes; 0: what the files take */
	uint64_t epoch;			/* seconds since 1970 */
	const char *label;
	const char *uuid;		/* NULL: it follows from the content */
	const char *partition_table;	/* "gpt" or "mbr", with one partition */
	const char *format;		/* "raw" or "qcow2", whatever the name */
	const char *compression;	/* of squashfs and erofs; or "none" */
	const char *owner;		/* "keep", "root" or "UID:GID" */
	const char *reference;		/* which of several container images */
	const char *options;		/* of the mount that is written to */
	const char *const *layers;	/* tar archives to put on top */
	const char *const *metadata;	/* mtree(5) files */
	const char *const *xattrs;	/* what getfattr --dump writes */
	const char *const *selinux;	/* file_contexts(5) files */
	int (*progress)(void *arg, uint64_t files, uint64_t bytes,
			uint64_t total_files, uint64_t total_bytes);
	void (*loss)(void *arg, const char *path, const char *what, int error);
	void (*failure)(void *arg, const char *path, const char *why,
			int error);
	void *arg;
};

/* What was made. Set size before the call. */
struct tane_made {
	size_t size;
	uint64_t image_size;	/* of the disk, in bytes */
	uint64_t epoch;		/* the time that it was */
	uint64_t files;
	uint64_t bytes;		/* of data; holes have none */
	uint64_t losses;
	uint64_t failures;
	char uuid[40];		/* of the file system, or of a disk's partition table */
};

/*
 * Make an image with a file system of the files of source: a directory, a tar
 * archive, or a container image as a directory or an archive; or the disk with several
 * partitions that a file NAME.toml describes, in the terms of repart.d(5). Its mkfs is run, and
 * a kernel is booted in this process to write the files; nobody needs to be root.
 * The same input gives the same bytes as "tane make-image" gives. options and made
 * may be NULL.
 *
 * The image appears under its name when it is complete and durable, and not at all
 * unless 0 is returned. If it is in source, it is not in itself. progress is called
 * from the beginning on, with totals of 0 until they are known. A source that is not to
 * be trusted is for "tane make-image",
 * which has a jail.
 *
 * -EEXIST     the image is there, and TANE_MAKE_FORCE is not set
 * -EINVAL     an option makes no sense, or not for this kind; or the image is there
 *             and is no file, but a device for one
 * -ENOENT     source is not there, or a program of the host: the message names it
 * -ECANCELED  progress stopped it
 * else the error of the first file that could not be read or written
 */
int tane_make_image(const char *source, const char *image,
		    const struct tane_make_options *options,
		    struct tane_made *made);

/* ---- network ---- */

/*
 * What a kernel reaches a network by. It has an interface of the kernel's, which
 * Linux names "eth0" and so on. Kernels in this process alone have networks
 * (-EOPNOTSUPP), of an image that has one (default).
 */
struct tane_nic;

struct tane_nic_options {
	size_t size;
	/* TANE_NIC_ bits. */
	uint32_t flags;
	/* The largest IP packet, in bytes, from 68 to 65535; 0: 1500. */
	uint32_t mtu;
	/* Its Ethernet address, six bytes; NULL: one that no other card here has. */
	const uint8_t *mac;
	/*
	 * Write all packets to this file of the host as pcapng, which is made anew; or
	 * NULL. Large segments and open checksums are as the card has them.
	 */
	const char *capture;
};

/* All packets are as they would be on a cable: no large segments, no open checksums. */
#define TANE_NIC_PLAIN 1

/*
 * Join two kernels, or one with itself, by a wire with a card at each end. The
 * address and the capture are those of the first. options MAY be NULL. The interfaces are down, and
 * without addresses. On success returns 0, *nic_a and *nic_b, each of which the caller
 * ends with tane_nic_close().
 *
 * -ENOSPC  a kernel has as many devices as it can have
 * -ENODEV  a kernel's image has no driver for it
 */
int tane_nic_pair(struct tane_kernel *a, struct tane_kernel *b,
		  const struct tane_nic_options *options,
		  struct tane_nic **nic_a, struct tane_nic **nic_b);

/*
 * The same with one card at a tap interface of the host's: the one of this name,
 * or a new one if name is NULL.
 *
 * -EPERM  the interface is not there or another user's, and this process has no
 *         CAP_NET_ADMIN
 * -EBUSY  another program has it
 */
int tane_nic_tap(struct tane_kernel *kernel, const char *name,
		 const struct tane_nic_options *options,
		 struct tane_nic **nic);

/*
 * The same with descriptors of the host's that the caller has; they are duplicated, and are
 * non-blocking from then on. A tap interface that was opened with IFF_NO_PI and IFF_VNET_HDR; a
 * Unix socket on which each frame stands behind its length (passt, QEMU's -netdev stream);
 * one on which each is a datagram (QEMU's -netdev dgram).
 */
int tane_nic_tap_fd(struct tane_kernel *kernel, int fd,
		    const struct tane_nic_options *options,
		    struct tane_nic **nic);
int tane_nic_stream(struct tane_kernel *kernel, int fd,
		    const struct tane_nic_options *options,
		    struct tane_nic **nic);
int tane_nic_datagram(struct tane_kernel *kernel, int fd,
		      const struct tane_nic_options *options,
		      struct tane_nic **nic);

/* Lists that end with a NULL, or NULL (docs/net.md has what they say). */
struct tane_user_network {
	size_t size;
	/* What may be reached: "10.0.0.0/8", "*.example.com:443", "host:5432". */
	const char *const *allow;
	/* What may not, whatever is allowed. */
	const char *const *deny;
	/* Ports of the host's that lead inside: "8080:80", "0.0.0.0:8080:80". */
	const char *const *forwards;
	/* Who resolves names; NULL: whom the host's /etc/resolv.conf names. */
	const char *const *resolvers;
};

/*
 * Let the kernel use the host's network, through ordinary sockets of this process:
 * TCP, UDP, names. Its interface is up and has its addresses when this returns. network
 * MAY be NULL: all of the host's network but what is the host's alone.
 *
 * -EINVAL      a list says something that is no destination, port or address
 * -EADDRINUSE  a port of the host's is taken
 * -ENOENT, -EOPNOTSUPP and the like  the kernel's image has not all that this takes
 */
int tane_nic_user(struct tane_kernel *kernel,
		  const struct tane_user_network *network,
		  struct tane_nic **nic);

/*
 * The port at which the host listens for the forward of this number, from 0:
 * that which was free, where the forward said 0.
 *
 * -EINVAL  there is none
 */
int tane_nic_port(const struct tane_nic *nic, size_t number);

/*
 * The kernel's name of the interface. Valid as long as the handle. NULL only for NULL.
 */
const char *tane_nic_interface(const struct tane_nic *nic);

/*
 * Write what the capture has in its buffer; without one this does nothing. Errors are
 * those of writing the file, also earlier ones.
 */
int tane_nic_flush(struct tane_nic *nic);

/*
 * Take the interface away, and all connections through the host's network with it.
 */
void tane_nic_close(struct tane_nic *nic);

/*
 * Have an interface, such as "lo" or tane_nic_interface(), send and receive, or no
 * longer. A new kernel has "lo" alone, which is down until a tane_nic_user() or
 * this.
 *
 * -ENODEV        there is none of this name
 * -EAFNOSUPPORT  the kernel's image has no network
 */
int tane_link_up(struct tane_kernel *kernel, const char *name);
int tane_link_down(struct tane_kernel *kernel, const char *name);

/* Set its largest IP packet, in bytes: at most what its card was made with. */
int tane_link_mtu(struct tane_kernel *kernel, const char *name, uint32_t mtu);

/* 1 if it is up and somebody is at the other end of its wire, else 0. */
int tane_link_is_running(struct tane_kernel *kernel, const char *name);

/* The kernel's number for it, from 1. */
int tane_link_index(struct tane_kernel *kernel, const char *name);

/*
 * Give it an address, such as "10.0.0.2/24" or "fd00::2/64", or take it away.
 *
 * -EINVAL        the text is no address
 * -EEXIST        it has that
 * -EADDRNOTAVAIL it has it not
 */
int tane_link_add_address(struct tane_kernel *kernel, const char *name,
			  const char *address);
int tane_link_remove_address(struct tane_kernel *kernel, const char *name,
			     const char *address);

/*
 * Have what it sends from now on be late, lost, cut to a rate and so on, as tc-netem(8)
 * does: "delay=100ms,jitter=5ms,loss=1%,duplicate=1%,corrupt=1%,rate=2mbit,limit=1000,
 * seed=7", or some of these; NULL: as it is again.
 *
 * -EINVAL  the text says something else
 * -ENOENT  the kernel's image has no netem; or, for NULL, nothing is impaired
 */
int tane_link_impair(struct tane_kernel *kernel, const char *name,
		     const char *how);

/*
 * Send what is for a network, such as "10.1.0.0/16", or "0.0.0.0/0" for all others,
 * by way of a gateway, "10.0.0.1".
 *
 * -ENETUNREACH  there is no way to the gateway
 */
int tane_route_add(struct tane_kernel *kernel, const char *network,
		   const char *gateway);

/*
 * The same by this interface, as far as no way with a smaller metric serves, as those of
 * tane_route_add() have (0). What is bound to the interface takes it in any case.
 */
int tane_link_add_route(struct tane_kernel *kernel, const char *name,
			const char *network, const char *gateway,
			uint32_t metric);

/*
 * Give the addresses that a name has in the kernel's network, as texts, each with a NUL,
 * one behind the other: by /etc/hosts and the resolvers of /etc/resolv.conf in the
 * kernel's root, which tane_nic_user() writes if it is not there. Waits for their
 * answer. Returns the length of all of them; len MAY be 0 to ask for that alone.
 *
 * -ENOENT     there is no such name, or it has no address
 * -EACCES     the resolvers refuse to tell, also because of a list of tane_nic_user()
 * -EAGAIN     they cannot tell now
 * -ETIMEDOUT  none answers
 * -ENONET     none is named
 * -ERANGE     len is too small
 */
int64_t tane_lookup(struct tane_kernel *kernel, const char *name,
		    char *addresses, size_t len);

/* What an address is for, in connections over several paths (MPTCP). */
/* The other end is told of it, and may begin further paths to it. */
#define TANE_MPTCP_SIGNAL 1
/* Connections begin further paths from it. */
#define TANE_MPTCP_SUBFLOW 2
/* Its paths are taken when there are no others. */
#define TANE_MPTCP_BACKUP 4
/* From it to all addresses of the other end that are known; not with SIGNAL. */
#define TANE_MPTCP_FULLMESH 8
/* Told alone: the kernel found it by itself, of a path that the other end began. */
#define TANE_MPTCP_IMPLICIT 16

/* An address that connections may take. */
struct tane_mptcp_endpoint {
	/* The kernel's number for it, from 1. */
	uint32_t id;
	/* TANE_MPTCP_ bits. */
	uint32_t flags;
	/* tane_link_index() of the interface that it is bound to; 0: none. */
	uint32_t link;
	char address[48];
};

/*
 * Have connections of MPTCP take an address, such as "10.0.2.1" or "fd00::2", those that
 * there are already, too. What goes from there goes by the interface of the name
 * link, where there is a route by it; or, for NULL, as the kernel's routes say. Sockets of
 * MPTCP are tane_socket()'s, with IPPROTO_MPTCP.
 *
 * -EPROTONOSUPPORT  the kernel's image has no MPTCP (default has), as for all that follows
 * -EEXIST           it is there
 * -ERANGE           there are 8
 * -EINVAL           the text is no address, or flags contradict each other
 * -ENODEV           there is no such interface
 */
int tane_mptcp_add_endpoint(struct tane_kernel *kernel, const char *link,
			    const char *address, uint32_t flags);

/*
 * Have connections take it no longer, by its id, or all of them: paths that do end.
 *
 * -EINVAL  there is none of this number
 */
int tane_mptcp_remove_endpoint(struct tane_kernel *kernel, uint32_t id);
int tane_mptcp_clear(struct tane_kernel *kernel);

/* Those there are, by their numbers: how many, at most count. There are no more than 8. */
int64_t tane_mptcp_endpoints(struct tane_kernel *kernel,
			     struct tane_mptcp_endpoint *endpoints, size_t count);

/*
 * How many paths a connection may have beside the first one (2 in a new kernel), and of them
 * how many to addresses of which the other end tells (0).
 *
 * -EINVAL  more than 8
 */
int tane_mptcp_limits(struct tane_kernel *kernel, uint32_t *subflows,
		      uint32_t *accepted);
int tane_mptcp_set_limits(struct tane_kernel *kernel, uint32_t subflows,
			  uint32_t accepted);

/*
 * A socket of the kernel's, of any kind that its socket(2) makes. Addresses are Linux's
 * structures sockaddr_in, sockaddr_in6 and so on, as numbers of bytes at a pointer. Calls
 * are those of section 2 of the manual, by the same names, with the same arguments and
 * errors; a peer that is gone is -EPIPE and never a signal. They wait, unless
 * the socket is non-blocking or a flag says so.
 */
struct tane_socket;

/*
 * Make one; type MAY have SOCK_NONBLOCK. On success returns 0 and *socket, which the
 * caller ends with tane_socket_close().
 */
int tane_socket(struct tane_kernel *kernel, int domain, int type, int protocol,
		struct tane_socket **socket);

int tane_bind(struct tane_socket *socket, const void *addr, uint32_t len);
int tane_connect(struct tane_socket *socket, const void *addr, uint32_t len);
int tane_listen(struct tane_socket *socket, int backlog);

/*
 * accept4(2): addr and len MAY be NULL, flags MAY be SOCK_NONBLOCK. On success returns
 * 0 and *accepted, which the caller ends with tane_socket_close().
 */
int tane_accept(struct tane_socket *socket, void *addr, uint32_t *len,
		int flags, struct tane_socket **accepted);

/* Without an address, which MAY be NULL, they are send(2) and recv(2). */
int64_t tane_sendto(struct tane_socket *socket, const void *data, size_t size,
		    int flags, const void *addr, uint32_t len);
int64_t tane_recvfrom(struct tane_socket *socket, void *data, size_t size,
		      int flags, void *addr, uint32_t *len);

/*
 * msg is a struct msghdr. Descriptors that Unix sockets carry are the kernel's.
 */
int64_t tane_sendmsg(struct tane_socket *socket, const void *msg, int flags);
int64_t tane_recvmsg(struct tane_socket *socket, void *msg, int flags);

int tane_shutdown(struct tane_socket *socket, int how);
int tane_setsockopt(struct tane_socket *socket, int level, int option,
		    const void *value, uint32_t len);
int tane_getsockopt(struct tane_socket *socket, int level, int option,
		    void *value, uint32_t *len);
int tane_getsockname(struct tane_socket *socket, void *addr, uint32_t *len);
int tane_getpeername(struct tane_socket *socket, void *addr, uint32_t *len);

/* Have calls that would wait return -EAGAIN, or wait again. */
int tane_socket_nonblocking(struct tane_socket *socket, int yes);

/* Its descriptor in the kernel, for tane_syscall(). It stays the socket's. */
int tane_socket_fd(const struct tane_socket *socket);

/*
 * A descriptor of the host's that is readable and writable when the socket is: for the
 * host's poll(2), select(2) and epoll(7), level- or edge-triggered, and nothing else; it
 * MUST NOT be read, written or closed. It is the same each time, up to date when this
 * returns and soon after each change, valid as long as the socket, and takes two of
 * the host's descriptors. One thread serves all
 * such sockets of a kernel; it sleeps while nothing happens, and while it is there
 * tane_checkpoint() is -EBUSY. What tane_syscall() does with the
 * socket is not noticed.
 *
 * -EMFILE  the host's limit on descriptors
 */
int tane_socket_poll_fd(struct tane_socket *socket);

/* Calls of other threads on it MUST be over. */
void tane_socket_close(struct tane_socket *socket);

/* What MPTCP says of a connection. */
struct tane_mptcp_info {
	size_t size;
	/* Bytes that were sent, again ones included; of them, again by another path. */
	uint64_t bytes_sent;
	uint64_t bytes_retransmitted;
	/* Bytes that the other end has acknowledged. */
	uint64_t bytes_acked;
	/* Bytes that came and were new. */
	uint64_t bytes_received;
};

/* A path of a connection, which is a connection of TCP's, and what that says of it. */
struct tane_mptcp_path {
	/* No other path of this connection has or had it. */
	uint32_t id;
	/* The round trip's time, smoothed, and the shortest one of late, in microseconds. */
	uint32_t rtt;
	uint32_t min_rtt;
	/* In segments. */
	uint32_t congestion_window;
	/* Segments that were sent again. */
	uint32_t retransmits;
	/* Its ends here and there: "10.0.0.1:4000", "[fd00::1]:4000". */
	char local[64];
	char remote[64];
	uint64_t bytes_sent;
	uint64_t bytes_acked;
	uint64_t bytes_received;
	/* How fast it was lately delivered, in bytes a second. */
	uint64_t delivery_rate;
};

/*
 * Which paths a socket of MPTCP takes, and what went by each, at one time. Returns how many there
 * are, at most count; a connection has no more than 9. info MAY be NULL.
 *
 * -EOPNOTSUPP or -ENOPROTOOPT  it is of another kind, or went on by TCP alone, as the
 *                              other end has no MPTCP
 */
int64_t tane_mptcp_info(struct tane_socket *socket, struct tane_mptcp_info *info,
			struct tane_mptcp_path *paths, size_t count);

/* ---- memory ---- */

struct tane_buffer;

/*
 * Get len bytes that are pages of the kernel: O_DIRECT, vmsplice(2) and
 * registered buffers of io_uring use them without a copy. The caller's other
 * memory cannot be used for these: -EFAULT. They are zero and counted against
 * the kernel's memory. On success returns 0 and *buffer, which the caller ends
 * with tane_buffer_free().
 *
 * -EINVAL  len is 0
 * -ENOMEM  the kernel has not that much memory available
 */
int tane_buffer_alloc(struct tane_kernel *kernel, size_t len,
		      struct tane_buffer **buffer);

/*
 * The first byte, aligned to a page of 4096 bytes, for any thread to read and
 * write. Valid until tane_buffer_free(), whatever becomes of the kernel. NULL
 * only for NULL.
 */
void *tane_buffer_data(const struct tane_buffer *buffer);

/*
 * 0 if all that was read so far is what was written. -ESHUTDOWN if the kernel
 * ended while it had a page out of view, as it has after something is unmapped
 * until the page is touched: such a page reads as zeroes.
 */
int tane_buffer_check(const struct tane_buffer *buffer);

void tane_buffer_free(struct tane_buffer *buffer);

struct tane_map;

/* Let the bytes be changed, and with them the file, which is open for both. */
#define TANE_MAP_WRITE 1
/* Changes stay in this mapping. */
#define TANE_MAP_PRIVATE 2
/* Read all of it now, rather than as it is touched. */
#define TANE_MAP_POPULATE 4

/*
 * Make len bytes of a file from offset on, which MAY be any, memory of this
 * process; mmap(2). flags: TANE_MAP_ bits. The bytes are those that calls on the
 * file read and write. On success returns 0 and *map, which the caller ends with
 * tane_unmap(); the file MAY be closed before.
 *
 * -EINVAL  len is 0, or there are other flags
 * -EACCES  the file is not open for what flags ask
 * -ENODEV  its file system has no mappings
 * -EFAULT  with TANE_MAP_POPULATE: the file ends before the range does
 * -ENOMEM  there is no room for it
 */
int tane_map(struct tane_file *file, uint64_t offset, size_t len,
	     uint32_t flags, struct tane_map **map);

/*
 * The byte at offset, for any thread. Valid until tane_unmap(), whatever becomes
 * of the file and the kernel: a page that cannot be had reads as zeroes, and
 * tane_map_check() tells. NULL only for NULL.
 */
void *tane_map_data(const struct tane_map *map);

/*
 * What was changed so far in len bytes from byte offset of the mapping on has
 * reached the disk image when this returns; msync(2).
 *
 * -EINVAL  the mapping has no such range
 * others   as tane_map_check(), or a write failed
 */
int tane_map_flush(struct tane_map *map, size_t offset, size_t len);

/*
 * 0 if all that was read and written so far is the file's.
 *
 * -EIO        a page lay behind the end of the file or could not be read, or
 *             the kernel refused a write, as on a full disk: it did not reach
 *             the file
 * -ESHUTDOWN  the same, and the kernel has ended
 */
int tane_map_check(const struct tane_map *map);

/* End the mapping. Errors of writing are tane_map_flush()'s to report. */
void tane_unmap(struct tane_map *map);

/* ---- checked code ---- */

/*
 * A module is machine code in a file (.tmod) that `tane build` makes and that is checked
 * before it runs: docs/checked.md says what is then proven, and of what it is not. An
 * instance is a module with memory of its own. It is called as a function is, on the
 * calling thread, and reaches nothing of the process but what it was given.
 *
 * Faults of a module are told by a handler of SIGSEGV, SIGBUS, SIGFPE and SIGILL, which
 * the first instance installs: what is no module's it passes on to the handler before
 * it. A program that installs its own later MUST pass on what is not its own. The end of
 * a call's time is a signal, SIGRTMAX - 6.
 */
struct tane_module;
struct tane_instance;

/*
 * Check the module of len bytes at data, which is copied. On success returns 0 and
 * *module, which the caller ends with tane_module_close().
 *
 * -ENOEXEC  it breaks a rule: the message has its number, where, and the remedy
 */
int tane_module_open(const void *data, size_t len, struct tane_module **module);

/*
 * The name of a function that it has to be called, or that it calls and must be given, by
 * number from 0; NULL if there are no more. Valid as long as the handle.
 */
const char *tane_module_export(const struct tane_module *module,
			       uint32_t number);
const char *tane_module_import(const struct tane_module *module,
			       uint32_t number);

/* End the handle. Instances stay. */
void tane_module_close(struct tane_module *module);

/* A function of the caller's that a module may call. */
struct tane_import {
	const char *name;
	/*
	 * Gets the first six arguments; the module gets what it returns. Called on the
	 * instance's thread, within tane_instance_call(). It MAY read and write the
	 * instance's memory and call kernels and other modules; it MUST NOT end the
	 * instance, and MUST return: no longjmp(), no exception.
	 */
	int64_t (*function)(void *arg, struct tane_instance *instance,
			    const int64_t args[6]);
	void *arg;
};

struct tane_instance_options {
	size_t size;
	/*
	 * The kernel in this process whose system calls it may import, or NULL: none.
	 * The instance keeps it alive.
	 */
	const struct tane_kernel *kernel;
	/*
	 * A directory of the kernel's, such as tane_mount_point(): its root directory
	 * and descriptor 0. NULL: it makes no calls on files; those on sockets need none.
	 */
	const char *directory;
	/*
	 * Names of the system calls that it may import, ending with NULL; or NULL: those
	 * that touch no file, and with a directory those on files. Calls on sockets are
	 * only those named here, beside read, write and close.
	 * Names without a kernel are of one that tane_instance_connect() brings.
	 */
	const char *const *calls;
	/* Functions that it may import; they need not live longer than the call. */
	const struct tane_import *imports;
	size_t import_count;
	/* Bytes of its heap and stack; 0: 64 MiB. Taken from the host as touched. */
	uint64_t memory;
	/* The longest that one call may take; 0: for ever. */
	uint64_t milliseconds;
};

/*
 * Give a module memory, and what it imports. It imports tane_heap and tane_heap_end,
 * tane_exit, tane_try and tane_throw without further words. options MAY be NULL. On
 * success returns 0 and *instance, which the caller ends with tane_instance_close().
 *
 * An instance is of the thread that made it: calls with it on others are -EPERM but where
 * it says otherwise; in a child of fork(2) they are -ENOTSUP. Any number of instances may
 * be made of a module, on any threads.
 *
 * -ENOSYS      it imports what it was not given; the message names it
 * -EINVAL      there is no such call, or a directory without a kernel
 * -EOPNOTSUPP  the processor has no AVX, the host's Linux lets no program set the GS
 *              base, or the kernel runs in a process of its own
 * -EPERM       the process is in a jail, in which nothing becomes code any more: make
 *              instances before
 * others       what the kernel says about the directory, or the host about memory
 */
int tane_instance_new(const struct tane_module *module,
		      const struct tane_instance_options *options,
		      struct tane_instance **instance);

/*
 * The kernel, and directory or NULL, that the system calls are for which the instance was
 * allowed when it was made without. For processes that enter a jail: instances are made
 * before, kernels booted in it. Its limit of time holds from now on. Before any use of
 * its memory.
 *
 * -EBUSY   it has a kernel already
 * -ENOSYS  it makes calls on files, and there is no directory
 * others   as tane_instance_new()
 */
int tane_instance_connect(struct tane_instance *instance,
			  const struct tane_kernel *kernel,
			  const char *directory);

/*
 * What ends a call before its function returns. The instance MAY be called again: its
 * memory is as the call left it.
 */
#define TANE_TRAP_MEMORY 1
/* It is too deep in calls of itself. */
#define TANE_TRAP_STACK 2
/* A division by zero, or one whose result does not fit. */
#define TANE_TRAP_DIVIDE 3
/* It has come to where its code does not go on. */
#define TANE_TRAP_UNREACHABLE 4
/* A call by a pointer to no function. */
#define TANE_TRAP_CALL 5
/* It took longer than it may, or tane_instance_stop() was called. */
#define TANE_TRAP_TIME 6
/* It called tane_exit: *result is what it gave. */
#define TANE_TRAP_EXIT 7

/*
 * Call a function that the module exports, with count integers, of which there are six at
 * most; others are 0. Returns 0, and in *result what the function returned, of which only
 * as much counts as its type has bits. Or returns a TANE_TRAP_, and *result is 0 or the
 * code of the exit; tane_error_message() then says what happened, and where. result MAY
 * be NULL.
 *
 * -ENOENT  there is no such function
 * -ENOSYS  it makes system calls, and its kernel was not connected yet
 * -E2BIG   more than six arguments
 * -EBUSY   called by an import of this instance's
 */
int tane_instance_call(struct tane_instance *instance, const char *function,
		       const int64_t *args, size_t count, int64_t *result);

/* Where a call was ended. */
struct tane_place {
	size_t size;
	/*
	 * The exported function that begins there or before, and the source's file;
	 * NULL if they are not known. Valid until the instance's next call that traps.
	 */
	const char *function;
	const char *file;
	/* In the file, from 1; 0: not known. */
	uint32_t line;
	/* Bytes from the beginning of the code. */
	uint32_t at;
};

/* Where the last TANE_TRAP_ was. -ENODATA if that is not known. */
int tane_instance_place(const struct tane_instance *instance,
			struct tane_place *place);

/*
 * Copy len bytes out of the instance's memory, or into it. Offsets are what its pointers
 * are as numbers. -EFAULT, and nothing is copied, if the module itself could not read or
 * write all of them.
 */
int tane_instance_read(const struct tane_instance *instance, uint64_t offset,
		       void *to, size_t len);
int tane_instance_write(struct tane_instance *instance, uint64_t offset,
			const void *from, size_t len);

/*
 * Copy len bytes to where its stack ends, which begins below them from now on, and say in
 * *offset where they are, aligned to 16 bytes: arguments for as long as it lives.
 *
 * -ENOSPC  the stack has no room
 * -EBUSY   called by an import of this instance's
 */
int tane_instance_give(struct tane_instance *instance, const void *from,
		       size_t len, uint64_t *offset);

/*
 * The offsets between which its heap lies. Nobody uses it but by tane_heap: in a module
 * that has no malloc() it is the caller's.
 */
int tane_instance_heap(const struct tane_instance *instance, uint64_t *start,
		       uint64_t *end);

/*
 * For an import: once it has returned its instance's call ends with TANE_TRAP_EXIT and
 * this code. -EINVAL if the instance is in no call.
 */
int tane_instance_exit(struct tane_instance *instance, int32_t code);

/*
 * Have the call under way, and all later ones, end with TANE_TRAP_TIME. On any thread.
 * -EINVAL if the instance has no limit of time; one that is never reached will do.
 */
int tane_instance_stop(const struct tane_instance *instance);

/* End the instance: its memory is gone, and what it had open. On any thread. */
void tane_instance_close(struct tane_instance *instance);

/* ---- jail ---- */

struct tane_jail_options {
	size_t size;
	/*
	 * Lists of paths that end with NULL, or NULL for none: files, or
	 * directories with all beneath them, that may still be opened for reading;
	 * or for writing too; directories beneath which everything may be made,
	 * changed and removed. Paths that do not exist are -ENOENT or -EINVAL.
	 */
	const char *const *read;
	const char *const *write;
	const char *const *write_beneath;
	/* The most private memory the process may have; 0: as before. */
	uint64_t memory;
	/* It is killed after so many milliseconds; 0: never. */
	uint64_t milliseconds;
	/* TANE_JAIL_ bits. */
	uint32_t flags;
};

/* Kernels are still to be booted; another tane_jail() MAY follow. */
#define TANE_JAIL_BOOTS 1
/* Sockets may be made and used. */
#define TANE_JAIL_NETWORK 2

/*
 * Confine the calling process, all of it and for good, to what a kernel inside
 * it needs, so that a hostile image can do no harm outside: docs/jail.md says
 * what that is. What is open stays open. options MAY be NULL: no more files.
 *
 * This concerns the whole process and every library in it: no program can be
 * started, no other process made, nothing resolved or logged over a socket;
 * some of that ends the process (SIGSYS), the rest fails. So it is for processes
 * that do nothing else. Larger programs start one as a worker.
 *
 * The first call MUST come before the process starts threads, or it is -EBUSY
 * (from Linux 7.0 on it need not). Best are two: with TANE_JAIL_BOOTS first of
 * all, with the kernel image and the disk images in read or write; and without,
 * between tane_disk_open() and tane_mount(). One without TANE_JAIL_BOOTS is the
 * last.
 *
 * Returns 0 if all holds; 1 if the host's Landlock is older than Linux 6.12 and
 * enforces the greater part; 2 if it has none that serves, so that files are
 * protected only as far as no call is left that opens them.
 *
 * -EBUSY   other threads run already
 * -EINVAL  the host has no seccomp; or a path cannot be used
 */
int tane_jail(const struct tane_jail_options *options);

#ifdef __cplusplus
}
#endif

#endif /* TANE_H */

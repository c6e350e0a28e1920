/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * WASI preview 1 (wasi_snapshot_preview1), by Linux's calls and the loader's streams. 0, 1
 * and 2 are those streams; 3 is the root directory, and what is opened below it follows.
 * Who imports no path_open has no files, and no call on files is imported for it.
 */
s64 import_read(int, void *, u64) IMPORT("read");
s64 import_write(int, const void *, u64) IMPORT("write");
s64 import_pread(int, void *, u64, s64) IMPORT("pread");
s64 import_pwrite(int, const void *, u64, s64) IMPORT("pwrite");
s64 import_openat(int, const char *, int, int) IMPORT("openat");
s64 import_close(int) IMPORT("close");
s64 import_lseek(int, s64, int) IMPORT("lseek");
s64 import_fstat(int, void *) IMPORT("fstat");
s64 import_fstatat(int, const char *, void *, int) IMPORT("fstatat");
s64 import_getdents64(int, void *, u64) IMPORT("getdents64");
s64 import_readlinkat(int, const char *, char *, u64) IMPORT("readlinkat");
s64 import_mkdirat(int, const char *, int) IMPORT("mkdirat");
s64 import_unlinkat(int, const char *, int) IMPORT("unlinkat");
s64 import_renameat(int, const char *, int, const char *) IMPORT("renameat");
s64 import_linkat(int, const char *, int, const char *, int) IMPORT("linkat");
s64 import_symlinkat(const char *, int, const char *) IMPORT("symlinkat");
s64 import_ftruncate(int, s64) IMPORT("ftruncate");
s64 import_fallocate(int, int, s64, s64) IMPORT("fallocate");
s64 import_fsync(int) IMPORT("fsync");
s64 import_fdatasync(int) IMPORT("fdatasync");
s64 import_clock_gettime(int, void *) IMPORT("clock_gettime");
s64 import_getrandom(void *, u64, u32) IMPORT("getrandom");
s64 import_sched_yield(void) IMPORT("sched_yield");
s64 import_input(void *, u64) IMPORT("tane_input");
s64 import_output(int, const void *, u64) IMPORT("tane_output");
__attribute__((__noreturn__)) void import_exit(int) IMPORT("tane_exit");

#define WASI static UNUSED u32
#define ROOT 3

enum {
	W_BADF = 8, W_FAULT = 21, W_INVAL = 28, W_NAMETOOLONG = 37, W_NOSYS = 52,
	W_NOTSUP = 58, W_SPIPE = 70, W_NOTCAPABLE = 76
};

/* By Linux's number, up to 40; what is not here is an error of I/O. */
static const u8 errors[] = {
	0, 63, 44, 71, 27, 29, 60, 1, 45, 8, 12, 6, 48, 2, 21, 29, 10, 20, 75, 43, 54, 31, 28, 41,
	33, 59, 74, 22, 51, 70, 69, 34, 64, 18, 68, 16, 37, 46, 52, 55, 32
};

static u32 UNUSED error(s64 result)
{
	if (result >= 0)
		return 0;
	if (-result == 95)
		return W_NOTSUP;
	if (-result == 75)
		return 61;
	if (-result == 122)
		return 19;
	return -result < (s64)sizeof(errors) ? errors[-result] : 29;
}

static int argument_count;
static char **arguments;

static u64 length(const char *text)
{
	u64 n = 0;

	while (text[n])
		n++;
	return n;
}

WASI wasi_args_sizes_get(u32 count, u32 bytes)
{
	u64 all = 0;

	for (int n = 0; n < argument_count; n++)
		all += length(arguments[n]) + 1;
	i32_store(count, 0, argument_count);
	i32_store(bytes, 0, all);
	return 0;
}

WASI wasi_args_get(u32 pointers, u32 text)
{
	for (int n = 0; n < argument_count; n++) {
		u64 bytes = length(arguments[n]) + 1;

		i32_store(pointers + 4 * n, 0, text);
		memcpy(range(text, bytes), arguments[n], bytes);
		text += bytes;
	}
	return 0;
}

WASI wasi_environ_sizes_get(u32 count, u32 bytes)
{
	i32_store(count, 0, 0);
	i32_store(bytes, 0, 0);
	return 0;
}

WASI wasi_environ_get(u32 pointers, u32 text)
{
	return 0;
}

WASI wasi_clock_res_get(u32 clock, u32 to)
{
	if (clock > 3)
		return W_INVAL;
	i64_store(to, 0, 1);
	return 0;
}

static u32 now(u32 clock, u64 *to)
{
	s64 time[2];
	/* Real, monotonic, the process's and the thread's have Linux's numbers. */
	s64 result = clock > 3 ? -22 : import_clock_gettime(clock, time);

	*to = result < 0 ? 0 : time[0] * 1000000000ul + time[1];
	return error(result);
}

WASI wasi_clock_time_get(u32 clock, u64 precision, u32 to)
{
	u64 time;
	u32 failed = now(clock, &time);

	if (!failed)
		i64_store(to, 0, time);
	return failed;
}

WASI wasi_random_get(u32 to, u32 bytes)
{
	u8 *at = range(to, bytes);
	s64 n;

	for (; bytes; bytes -= n, at += n) {
		n = import_getrandom(at, bytes, 0);
		if (n < 0)
			return error(n);
	}
	return 0;
}

WASI wasi_sched_yield(void)
{
	return error(import_sched_yield());
}

WASI wasi_proc_exit(u32 code)
{
	import_exit(code);
}

/* What is done with a file, where there are any. */
#ifdef WASI_FILES
#define FILE(call) (fd >= ROOT ? (call) : -9)
#else
#define FILE(call) (-9)
#endif

static s64 UNUSED input(u32 fd, u8 *to, u32 bytes)
{
	return fd ? FILE(import_read(fd, to, bytes)) : import_input(to, bytes);
}

static s64 UNUSED output(u32 fd, const u8 *from, u32 bytes)
{
	if (fd == 1 || fd == 2)
		return import_output(fd, from, bytes);
	return FILE(import_write(fd, from, bytes));
}

/* One after the other; what is less than was asked for is the end. */
#define EACH(call) \
	u64 all = 0; \
	for (u32 n = 0; n < count; n++) { \
		u32 bytes = i32_load(vector + 8 * n, 4); \
		u8 *at = range(i32_load(vector + 8 * n, 0), bytes); \
		s64 done; \
		if (!bytes) \
			continue; \
		done = (call); \
		if (done < 0 && !all) \
			return error(done); \
		if (done < 0) \
			break; \
		all += done; \
		if (done < bytes) \
			break; \
	} \
	i32_store(result, 0, all); \
	return 0

WASI wasi_fd_read(u32 fd, u32 vector, u32 count, u32 result)
{
	EACH(input(fd, at, bytes));
}

WASI wasi_fd_write(u32 fd, u32 vector, u32 count, u32 result)
{
	EACH(output(fd, at, bytes));
}

WASI wasi_fd_pread(u32 fd, u32 vector, u32 count, u64 offset, u32 result)
{
	if (fd < ROOT)
		return W_SPIPE;
	EACH(FILE(import_pread(fd, at, bytes, offset + all)));
}

WASI wasi_fd_pwrite(u32 fd, u32 vector, u32 count, u64 offset, u32 result)
{
	if (fd < ROOT)
		return W_SPIPE;
	EACH(FILE(import_pwrite(fd, at, bytes, offset + all)));
}

WASI wasi_fd_close(u32 fd)
{
	return fd < ROOT ? 0 : error(FILE(import_close(fd)));
}

WASI wasi_fd_seek(u32 fd, u64 offset, u32 whence, u32 to)
{
	s64 at = fd < ROOT ? -29 : FILE(import_lseek(fd, offset, whence));

	if (at >= 0)
		i64_store(to, 0, at);
	return error(at);
}

WASI wasi_fd_tell(u32 fd, u32 to)
{
	return wasi_fd_seek(fd, 0, 1, to);
}

WASI wasi_fd_sync(u32 fd)
{
	return error(FILE(import_fsync(fd)));
}

WASI wasi_fd_datasync(u32 fd)
{
	return error(FILE(import_fdatasync(fd)));
}

WASI wasi_fd_advise(u32 fd, u64 offset, u64 bytes, u32 advice)
{
	return 0;
}

WASI wasi_fd_allocate(u32 fd, u64 offset, u64 bytes)
{
	return error(FILE(import_fallocate(fd, 0, offset, bytes)));
}

WASI wasi_fd_filestat_set_size(u32 fd, u64 bytes)
{
	return error(FILE(import_ftruncate(fd, bytes)));
}

struct stat {
	u64 device, inode, links;
	u32 mode, user, group, zero;
	u64 special;
	s64 bytes, block, blocks, accessed[2], modified[2], changed[2], none[3];
};

static u32 UNUSED kind(u32 mode)
{
	switch (mode & 0170000) {
	case 0060000: return 1;
	case 0020000: return 2;
	case 0040000: return 3;
	case 0100000: return 4;
	case 0140000: return 6;
	case 0120000: return 7;
	}
	return 0;
}

static void UNUSED told(u32 to, const struct stat *stat)
{
	i64_store(to, 0, stat->device);
	i64_store(to, 8, stat->inode);
	i64_store(to, 16, kind(stat->mode));
	i64_store(to, 24, stat->links);
	i64_store(to, 32, stat->bytes);
	i64_store(to, 40, stat->accessed[0] * 1000000000 + stat->accessed[1]);
	i64_store(to, 48, stat->modified[0] * 1000000000 + stat->modified[1]);
	i64_store(to, 56, stat->changed[0] * 1000000000 + stat->changed[1]);
}

WASI wasi_fd_filestat_get(u32 fd, u32 to)
{
	struct stat stat = { .mode = 0020000 };
	s64 result = fd < ROOT ? 0 : FILE(import_fstat(fd, &stat));

	if (!result)
		told(to, &stat);
	return error(result);
}

WASI wasi_fd_fdstat_get(u32 fd, u32 to)
{
	struct stat stat = { .mode = 0020000 };
	s64 result = fd < ROOT ? 0 : FILE(import_fstat(fd, &stat));

	if (result)
		return error(result);
	i64_store(to, 0, kind(stat.mode));
	/* Every right, but a stream has no place to seek to. */
	i64_store(to, 8, fd < ROOT ? ~0x24ul : ~0ul);
	i64_store(to, 16, ~0ul);
	return 0;
}

WASI wasi_fd_fdstat_set_flags(u32 fd, u32 flags)
{
	return flags ? W_NOTSUP : 0;
}

WASI wasi_fd_fdstat_set_rights(u32 fd, u64 base, u64 inherited)
{
	return 0;
}

/*
 * Clocks are waited for, of those the first; descriptors can be read and written, as far as
 * is known here.
 */
WASI wasi_poll_oneoff(u32 in, u32 out, u32 count, u32 happened)
{
	u64 first = ~0ul, time;
	u32 clock = 1, events = 0;

	if (!count)
		return W_INVAL;
	range(in, 48ul * count);
	range(out, 32ul * count);
	for (u32 n = 0; n < count; n++) {
		u32 at = in + 48 * n;

		if (i32_load8_u(at, 8)) {
			first = 0;
			continue;
		}
		if (now(i32_load(at, 16), &time))
			return W_INVAL;
		u64 until = i64_load(at, 24) + (i32_load16_u(at, 40) & 1 ? 0 : time);

		if (until < first) {
			first = until;
			clock = i32_load(at, 16);
		}
	}
	while (first && !now(clock, &time) && time < first)
		import_sched_yield();
	for (u32 n = 0; n < count; n++) {
		u32 at = in + 48 * n, to = out + 32 * events, type = i32_load8_u(at, 8);

		if (!type) {
			u64 until = i64_load(at, 24);

			now(i32_load(at, 16), &time);
			if (!(first && (i32_load16_u(at, 40) & 1 ? until <= time : until <= first)))
				continue;
		}
		i64_store(to, 0, i64_load(at, 0));
		i64_store(to, 8, (u64)type << 16);
		i64_store(to, 16, type ? 1 : 0);
		i64_store(to, 24, 0);
		events++;
	}
	i32_store(happened, 0, events);
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* WASI preview 1, what opens and names files: behind wasi.c, whose functions it uses. */
WASI wasi_fd_prestat_get(u32 fd, u32 to)
{
#ifdef WASI_FILES
	if (fd == ROOT) {
		i32_store(to, 0, 0);
		i32_store(to, 4, 1);
		return 0;
	}
#endif
	return W_BADF;
}

WASI wasi_fd_prestat_dir_name(u32 fd, u32 to, u32 bytes)
{
	if (fd != ROOT)
		return W_BADF;
	if (!bytes)
		return W_NAMETOOLONG;
	i32_store8(to, 0, '/');
	return 0;
}

#ifdef WASI_FILES
static char paths[2][4097];

/* A path as Linux wants it. It stays below the root directory in any case. */
static u32 path_of(int which, u32 at, u32 bytes)
{
	const u8 *from = range(at, bytes);

	if (bytes > 4096)
		return W_NAMETOOLONG;
	for (u32 n = 0; n < bytes; n++)
		if (!from[n])
			return W_INVAL;
	if (bytes && from[0] == '/')
		return W_NOTCAPABLE;
	memcpy(paths[which], from, bytes);
	paths[which][bytes] = 0;
	return 0;
}

#define PATH(which, at, bytes) \
	do { \
		u32 wrong = path_of(which, at, bytes); \
		if (wrong) \
			return wrong; \
	} while (0)

#define O_CREAT 0100
#define O_EXCL 0200
#define O_TRUNC 01000
#define O_APPEND 02000
#define O_NONBLOCK 04000
#define O_DSYNC 010000
#define O_SYNC 04010000
#define O_DIRECTORY 0200000
#define O_NOFOLLOW 0400000

WASI wasi_path_open(u32 fd, u32 follow, u32 path, u32 bytes, u32 how, u64 rights, u64 inherited,
		    u32 flags, u32 to)
{
	u32 reads = !!(rights & (2 | 1 << 14)), writes = !!(rights & (1 << 6 | 1 << 8 | 1 << 22));
	int given = writes ? 1 + reads : 0;
	s64 result;

	PATH(0, path, bytes);
	given |= (follow & 1 ? 0 : O_NOFOLLOW) | (how & 1 ? O_CREAT : 0);
	given |= (how & 2 ? O_DIRECTORY : 0) | (how & 4 ? O_EXCL : 0) | (how & 8 ? O_TRUNC : 0);
	if (how & 2)
		given &= ~3;
	given |= (flags & 1 ? O_APPEND : 0) | (flags & 2 ? O_DSYNC : 0);
	given |= (flags & 4 ? O_NONBLOCK : 0) | (flags & 24 ? O_SYNC : 0);
	result = FILE(import_openat(fd, paths[0], given, 0666));
	if (result >= 0)
		i32_store(to, 0, result);
	return error(result);
}

WASI wasi_path_filestat_get(u32 fd, u32 follow, u32 path, u32 bytes, u32 to)
{
	struct stat stat;
	s64 result;

	PATH(0, path, bytes);
	result = FILE(import_fstatat(fd, paths[0], &stat, follow & 1 ? 0 : 0x100));
	if (!result)
		told(to, &stat);
	return error(result);
}

WASI wasi_path_create_directory(u32 fd, u32 path, u32 bytes)
{
	PATH(0, path, bytes);
	return error(FILE(import_mkdirat(fd, paths[0], 0777)));
}

WASI wasi_path_unlink_file(u32 fd, u32 path, u32 bytes)
{
	PATH(0, path, bytes);
	return error(FILE(import_unlinkat(fd, paths[0], 0)));
}

WASI wasi_path_remove_directory(u32 fd, u32 path, u32 bytes)
{
	PATH(0, path, bytes);
	return error(FILE(import_unlinkat(fd, paths[0], 0x200)));
}

WASI wasi_path_rename(u32 fd, u32 path, u32 bytes, u32 to, u32 new, u32 new_bytes)
{
	PATH(0, path, bytes);
	PATH(1, new, new_bytes);
	return to < ROOT ? W_BADF : error(FILE(import_renameat(fd, paths[0], to, paths[1])));
}

WASI wasi_path_link(u32 fd, u32 follow, u32 path, u32 bytes, u32 to, u32 new, u32 new_bytes)
{
	PATH(0, path, bytes);
	PATH(1, new, new_bytes);
	if (to < ROOT)
		return W_BADF;
	return error(FILE(import_linkat(fd, paths[0], to, paths[1], follow & 1 ? 0x400 : 0)));
}

WASI wasi_path_symlink(u32 target, u32 target_bytes, u32 fd, u32 path, u32 bytes)
{
	PATH(0, target, target_bytes);
	PATH(1, path, bytes);
	return error(FILE(import_symlinkat(paths[0], fd, paths[1])));
}

WASI wasi_path_readlink(u32 fd, u32 path, u32 bytes, u32 to, u32 room, u32 used)
{
	s64 result;

	PATH(0, path, bytes);
	result = FILE(import_readlinkat(fd, paths[0], (char *)range(to, room), room));
	if (result >= 0)
		i32_store(used, 0, result);
	return error(result);
}

struct dirent {
	u64 inode;
	s64 next;
	u16 bytes;
	u8 type;
	char name[];
};

WASI wasi_fd_readdir(u32 fd, u32 to, u32 room, u64 cookie, u32 used)
{
	static char entries[4096] __attribute__((__aligned__(8)));
	u8 *out = range(to, room);
	s64 result = FILE(import_lseek(fd, cookie, 0));
	u32 done = 0;

	while (result >= 0 && done < room) {
		result = FILE(import_getdents64(fd, entries, sizeof(entries)));
		if (result <= 0)
			break;
		for (s64 at = 0; at < result && done < room;) {
			const struct dirent *entry = (const struct dirent *)(entries + at);
			/* Linux's types of files, by number, as WASI's. */
			static const u8 types[16] = {
				[2] = 2, [4] = 3, [6] = 1, [8] = 4, [10] = 7, [12] = 6
			};
			struct {
				u64 next, inode;
				u32 bytes, type;
			} head = { entry->next, entry->inode, length(entry->name),
				   types[entry->type & 15] };
			u32 some = sizeof(head) < room - done ? sizeof(head) : room - done;

			memcpy(out + done, &head, some);
			done += some;
			some = head.bytes < room - done ? head.bytes : room - done;
			memcpy(out + done, entry->name, some);
			done += some;
			at += entry->bytes;
		}
	}
	if (result < 0)
		return error(result);
	i32_store(used, 0, done);
	return 0;
}
#endif

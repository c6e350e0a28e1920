// SPDX-License-Identifier: GPL-2.0-only
/* Files, directories, descriptors and what is ready of them. */
#define _GNU_SOURCE
#include "random.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NAMES 6

static const char *name(void)
{
	static const char *const names[NAMES] = { "a", "b", "c", "d/a", "d/b", "d" };

	return names[roll(NAMES)];
}

static void tell_file(const char *path)
{
	struct stat is;

	if (lstat(path, &is))
		tell("%s: %s", path, error_of(-1));
	else if (S_ISDIR(is.st_mode))
		tell("%s: directory, mode %o", path, is.st_mode & 07777);
	else
		tell("%s: type %o, mode %o, %ld links, %ld bytes", path, is.st_mode >> 12,
		     is.st_mode & 07777, (long)is.st_nlink, (long)is.st_size);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void tell_directory(const char *path)
{
	char *found[64], line[400] = "";
	struct dirent *entry;
	size_t count = 0;
	DIR *dir = opendir(path);

	if (!dir) {
		tell("opendir %s: %s", path, error_of(-1));
		return;
	}
	while ((entry = readdir(dir)) && count < 64)
		found[count++] = strdup(entry->d_name);
	closedir(dir);
	qsort(found, count, sizeof(found[0]), by_name);
	for (size_t i = 0; i < count; i++) {
		strncat(line, " ", sizeof(line) - strlen(line) - 1);
		strncat(line, found[i], sizeof(line) - strlen(line) - 1);
		free(found[i]);
	}
	tell("%s has%s", path, line);
}

static void change_file(int fd)
{
	static char bytes[70000];
	size_t len = roll(4) ? roll(5000) : roll(sizeof(bytes));
	off_t at = roll(3) ? roll(20000) : roll(1 << 20);
	struct iovec parts[3] = {
		{ bytes, len / 3 }, { bytes + len / 2, len / 4 }, { bytes, len / 5 },
	};
	struct stat is;
	ssize_t n;
	int what = roll(8);

	/* Where one is in a directory means something to its file system only. */
	if (!fstat(fd, &is) && S_ISDIR(is.st_mode))
		what = 2;
	switch (what) {
	case 0:
		fill(bytes, len);
		n = pwrite(fd, bytes, len, at);
		tell("pwrite %zu at %ld: %zd %s", len, (long)at, n, error_of(n));
		break;
	case 1:
		fill(bytes, len);
		n = write(fd, bytes, len);
		tell("write %zu: %zd %s", len, n, error_of(n));
		break;
	case 2:
		n = pread(fd, bytes, len, at);
		tell("pread %zu at %ld: %zd %s %08x", len, (long)at, n, error_of(n),
		     sum_of(bytes, n > 0 ? n : 0));
		break;
	case 3:
		n = ftruncate(fd, at);
		tell("ftruncate %ld: %s", (long)at, error_of(n));
		break;
	case 4:
		n = lseek(fd, roll(2) ? at : -at, roll(3));
		tell("lseek: %zd %s", n, error_of(n));
		break;
	case 5:
		fill(bytes, len);
		n = pwritev(fd, parts, 3, at);
		tell("pwritev: %zd %s", n, error_of(n));
		break;
	case 6:
		n = preadv(fd, parts, 3, at);
		tell("preadv: %zd %s", n, error_of(n));
		break;
	case 7:
		n = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len);
		tell("punch %zu: %s", len, error_of(n));
		break;
	}
}

/* What is written by one way is read by the other. */
static void map_file(int fd)
{
	struct stat is;
	unsigned char *at;
	size_t len;
	unsigned char byte;

	if (fstat(fd, &is) || !is.st_size || !S_ISREG(is.st_mode))
		return;
	len = is.st_size;
	at = mmap(NULL, len, PROT_READ | PROT_WRITE, roll(2) ? MAP_SHARED : MAP_PRIVATE, fd, 0);
	tell("mmap of %zu: %s", len, at == MAP_FAILED ? error_of(-1) : "ok");
	if (at == MAP_FAILED)
		return;
	tell("as mapped: %08x", sum_of(at, len));
	for (int i = 0; i < 8; i++) {
		size_t place = roll(len);

		at[place] ^= roll(256);
		if (pread(fd, &byte, 1, place) == 1)
			tell("at %zu: mapped %02x, read %02x", place, at[place], byte);
	}
	munmap(at, len);
}

void do_files(void)
{
	int count = 5 + roll(25);

	while (count--) {
		const char *one = name(), *other = name();
		static const int flags[] = {
			O_RDWR, O_RDWR | O_CREAT, O_RDWR | O_CREAT | O_EXCL, O_RDONLY,
			O_RDWR | O_CREAT | O_TRUNC, O_RDWR | O_CREAT | O_APPEND,
		};
		int fd;

		switch (roll(9)) {
		case 0: tell("mkdir %s: %s", one, error_of(mkdir(one, 0700 + roll(64)))); break;
		case 1: tell("rename %s %s: %s", one, other, error_of(rename(one, other))); break;
		case 2: tell("link %s %s: %s", one, other, error_of(link(one, other))); break;
		case 3: tell("unlink %s: %s", one, error_of(unlink(one))); break;
		case 4: tell("rmdir %s: %s", one, error_of(rmdir(one))); break;
		case 5: tell("symlink %s %s: %s", one, other, error_of(symlink(one, other))); break;
		case 6: tell_directory(roll(2) ? "." : "d"); break;
		default:
			fd = open(one, flags[roll(6)], 0600 + roll(64));
			tell("open %s: %s", one, error_of(fd));
			if (fd < 0)
				break;
			for (int n = roll(6); n; n--)
				change_file(fd);
			if (!roll(3))
				map_file(fd);
			close(fd);
			tell_file(one);
		}
	}
}

/* Copies of a descriptor have one place in the file; locks are the file's. */
void do_descriptors(void)
{
	int fd = open("f", O_RDWR | O_CREAT, 0644), copy, other;
	char bytes[100];

	must(fd >= 0, "open");
	fill(bytes, sizeof(bytes));
	tell("write: %zd", write(fd, bytes, 1 + roll(100)));
	copy = roll(2) ? dup(fd) : dup2(fd, 20 + roll(10));
	must(copy >= 0, "dup");
	tell("the copy is at %ld", (long)lseek(copy, 0, SEEK_CUR));
	lseek(copy, roll(50), SEEK_SET);
	tell("the first is at %ld", (long)lseek(fd, 0, SEEK_CUR));
	other = open("f", O_RDONLY);
	must(other >= 0, "open");
	tell("flock: %s", error_of(flock(fd, LOCK_EX)));
	tell("of another: %s", error_of(flock(other, LOCK_SH | LOCK_NB)));
	close(fd);
	tell("one is closed: %s", error_of(flock(other, LOCK_SH | LOCK_NB)));
	close(copy);
	tell("both: %s", error_of(flock(other, LOCK_SH | LOCK_NB)));
	tell("write to one for reading: %s", error_of(write(other, bytes, 1)));
	close(other);
	tell("closed: %s", error_of(close(other)));
}

static void tell_ready(int epoll, struct pollfd *polled, int count)
{
	struct epoll_event events[8];
	int ready = epoll_wait(epoll, events, 8, 0), sum = 0;

	for (int i = 0; i < ready; i++)
		sum += (events[i].data.u32 + 1) * 10000 + events[i].events;
	tell("epoll: %d, %d; poll: %d", ready, sum, poll(polled, count, 0));
	for (int i = 0; i < count; i++)
		tell("%d: %x", i, polled[i].revents);
}

void do_poll(void)
{
	int ends[2], epoll = epoll_create1(0), event = eventfd(roll(2), EFD_NONBLOCK);
	char bytes[300];
	uint64_t word;

	must(epoll >= 0 && event >= 0, "epoll");
	must(!(roll(2) ? pipe(ends) : socketpair(AF_UNIX, roll(2) ? SOCK_STREAM : SOCK_DGRAM, 0,
						  ends)), "two ends");
	struct pollfd polled[3] = {
		{ ends[0], POLLIN | POLLOUT, 0 }, { ends[1], POLLIN | POLLOUT, 0 },
		{ event, POLLIN | POLLOUT, 0 },
	};
	for (int i = 0; i < 3; i++) {
		struct epoll_event wanted = { .events = EPOLLIN | EPOLLOUT, .data.u32 = i };

		epoll_ctl(epoll, EPOLL_CTL_ADD, polled[i].fd, &wanted);
	}
	for (int n = 2 + roll(5); n; n--) {
		ssize_t got;

		switch (roll(4)) {
		case 0:
			got = write(ends[1], bytes, 1 + roll(300));
			tell("written: %zd", got);
			break;
		case 1:
			if (poll(polled, 1, 0) < 0 || !(polled[0].revents & POLLIN))
				break;
			got = read(ends[0], bytes, 1 + roll(300));
			tell("read: %zd", got);
			break;
		case 2:
			word = roll(5);
			tell("event %d: %zd", (int)word, write(event, &word, 8));
			break;
		case 3:
			got = read(event, &word, 8);
			tell("event: %zd %s %d", got, error_of(got), got == 8 ? (int)word : 0);
			break;
		}
		tell_ready(epoll, polled, 3);
	}
	close(ends[1]);
	tell_ready(epoll, polled, 1);
	close(ends[0]);
	close(event);
	close(epoll);
}

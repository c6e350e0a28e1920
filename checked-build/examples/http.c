// SPDX-License-Identifier: GPL-2.0-only
/*
 * A small HTTP server: it gives the files beneath its root, one connection at a time.
 *
 *   tane build --libc musl http.c
 *   tane run-module --root DIR --net user -p 8080:80 -- http.tmod 80 [CONNECTIONS]
 *
 * It is ordinary C: the same source is a program of the host's, for its current directory.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define LONGEST 8192
/* Who says nothing for so long is not waited for, since others wait meanwhile. */
#define PATIENCE_MS 10000

static void fail(const char *what)
{
	fprintf(stderr, "http: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int listen_at(int port)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
	};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		fail("socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)))
		fail("SO_REUSEADDR");
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 16))
		fail("the port");
	return fd;
}

static int send_all(int fd, const char *from, size_t bytes)
{
	while (bytes) {
		/* Who has gone ends this connection, and not the program. */
		ssize_t sent = send(fd, from, bytes, MSG_NOSIGNAL);

		if (sent <= 0)
			return -1;
		from += sent;
		bytes -= sent;
	}
	return 0;
}

static void say(int fd, const char *status, long length)
{
	char head[256];
	int bytes = snprintf(head, sizeof(head),
			     "HTTP/1.1 %s\r\nContent-Length: %ld\r\nConnection: close\r\n\r\n",
			     status, length);

	send_all(fd, head, bytes);
}

static ssize_t receive(int fd, char *to, size_t bytes)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };

	return poll(&wanted, 1, PATIENCE_MS) == 1 ? recv(fd, to, bytes, 0) : -1;
}

/* A name in it is "..", which the host follows out of the directory that is its root here. */
static int leads_out(const char *path)
{
	while (*path) {
		size_t bytes = strcspn(path, "/");

		if (bytes == 2 && !strncmp(path, "..", 2))
			return 1;
		path += bytes;
		path += strspn(path, "/");
	}
	return 0;
}

static void give(int fd, const char *path, int with_content)
{
	char piece[65536];
	struct stat stat;
	int file;

	while (*path == '/')
		path++;
	file = leads_out(path) ? -1 : open(*path ? path : "index.html", O_RDONLY);
	if (file < 0 || fstat(file, &stat) || !S_ISREG(stat.st_mode)) {
		say(fd, "404 Not Found", 0);
	} else {
		ssize_t got = 0;

		say(fd, "200 OK", stat.st_size);
		while (with_content && (got = read(file, piece, sizeof(piece))) > 0)
			if (send_all(fd, piece, got))
				break;
	}
	if (file >= 0)
		close(file);
}

/* A request's head, up to its empty line. */
static int take(int fd, char *head)
{
	size_t have = 0;

	while (have < LONGEST - 1) {
		ssize_t got = receive(fd, head + have, LONGEST - 1 - have);

		if (got <= 0)
			return -1;
		have += got;
		head[have] = 0;
		if (strstr(head, "\r\n\r\n"))
			return 0;
	}
	return -1;
}

static void serve(int fd)
{
	static char head[LONGEST], path[LONGEST];
	char method[8];
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (take(fd, head) || sscanf(head, "%7s %8000s", method, path) != 2)
		say(fd, "400 Bad Request", 0);
	else if (!strcmp(method, "GET") || !strcmp(method, "HEAD"))
		give(fd, path, method[0] == 'G');
	else
		say(fd, "501 Not Implemented", 0);
	shutdown(fd, SHUT_WR);
	/* Until the other side has it all. */
	while (receive(fd, head, sizeof(head)) > 0)
		;
	close(fd);
}

int main(int argc, char **argv)
{
	long left = argc > 2 ? atol(argv[2]) : -1;
	int at = listen_at(argc > 1 ? atoi(argv[1]) : 80);

	for (; left; left -= left > 0) {
		struct sockaddr_in from;
		socklen_t bytes = sizeof(from);
		int fd = accept(at, (struct sockaddr *)&from, &bytes);

		if (fd < 0 && errno == ECONNABORTED)
			continue;
		if (fd < 0)
			fail("accept");
		serve(fd);
	}
	return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
/* Promises of tane.h about networks. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <tane.h>

#include "check.h"

static struct sockaddr_in in4(const char *ip, uint16_t port)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(port),
	};

	CHECK(inet_pton(AF_INET, ip, &to.sin_addr) == 1);
	return to;
}

static struct tane_kernel *boot(void)
{
	struct tane_kernel *kernel;

	CHECK(!tane_kernel_boot(NULL, &kernel));
	CHECK(!tane_link_up(kernel, "lo"));
	return kernel;
}

static struct tane_socket *make(struct tane_kernel *kernel, int type)
{
	struct tane_socket *socket;

	CHECK(!tane_socket(kernel, AF_INET, type, 0, &socket));
	return socket;
}

/* One that listens, and where. */
static struct tane_socket *listening(struct tane_kernel *kernel, const char *ip,
				     struct sockaddr_in *at)
{
	struct tane_socket *socket = make(kernel, SOCK_STREAM);
	uint32_t len = sizeof(*at);
	int one = 1;

	*at = in4(ip, 0);
	CHECK(!tane_setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &one,
			       sizeof(one)));
	CHECK(!tane_bind(socket, at, sizeof(*at)));
	CHECK(!tane_listen(socket, 16));
	CHECK(!tane_getsockname(socket, at, &len));
	CHECK(len == sizeof(*at) && at->sin_port);
	return socket;
}

/* There and back, with all kinds of sending and receiving. */
static void talk(struct tane_socket *near, struct tane_socket *far)
{
	char there[16] = "", back[16] = "";
	struct iovec parts[2] = { { "two ", 4 }, { "parts", 5 } };
	struct iovec into = { back, sizeof(back) };
	struct msghdr out = { .msg_iov = parts, .msg_iovlen = 2 };
	struct msghdr in = { .msg_iov = &into, .msg_iovlen = 1 };

	CHECK(tane_sendto(near, "hello", 5, 0, NULL, 0) == 5);
	CHECK(tane_recvfrom(far, there, sizeof(there), MSG_PEEK, NULL, NULL) == 5);
	CHECK(tane_recvfrom(far, there, 5, MSG_WAITALL, NULL, NULL) == 5);
	CHECK(!memcmp(there, "hello", 5));
	CHECK(tane_sendmsg(far, &out, 0) == 9);
	CHECK(tane_recvmsg(near, &in, 0) == 9);
	CHECK(!memcmp(back, "two parts", 9));
}

static void two_kernels_talk_and_their_packets_are_written_down(const char *pcap)
{
	struct tane_nic_options options = {
		.size = sizeof(options), .flags = TANE_NIC_PLAIN, .mtu = 1280,
		.mac = (const uint8_t *)"\x02\x11\x22\x33\x44\x55",
		.capture = pcap,
	};
	struct tane_kernel *a = boot(), *b = boot();
	struct tane_nic *nic_a, *nic_b;
	struct tane_socket *listener, *near, *far;
	struct sockaddr_in at, from;
	uint32_t len = sizeof(from);
	struct stat written;

	CHECK(!tane_nic_pair(a, b, &options, &nic_a, &nic_b));
	CHECK(!strcmp(tane_nic_interface(nic_a), "eth0"));
	CHECK(!tane_link_add_address(a, "eth0", "10.0.0.1/24"));
	CHECK(!tane_link_add_address(b, "eth0", "10.0.0.2/24"));
	CHECK(tane_link_add_address(b, "eth0", "10.0.0.2/24") == -EEXIST);
	CHECK(strstr(tane_error_message(), "eth0"));
	CHECK(!tane_link_mtu(b, "eth0", 1000));
	CHECK(!tane_link_up(a, "eth0") && !tane_link_up(b, "eth0"));
	CHECK(!tane_route_add(a, "10.9.0.0/16", "10.0.0.2"));
	CHECK(!tane_link_impair(a, "eth0", "delay=10ms,rate=100mbit"));
	CHECK(!tane_link_impair(a, "eth0", "delay=1ms"));
	CHECK(tane_link_impair(a, "eth0", "delay=1") == -EINVAL);
	CHECK(strstr(tane_error_message(), "delay=100ms"));
	CHECK(!tane_link_add_address(b, "lo", "10.9.0.1/32"));

	listener = listening(b, "10.9.0.1", &at);
	near = make(a, SOCK_STREAM);
	CHECK(!tane_connect(near, &at, sizeof(at)));
	CHECK(!tane_accept(listener, &from, &len, 0, &far));
	CHECK(from.sin_addr.s_addr == in4("10.0.0.1", 0).sin_addr.s_addr);
	talk(near, far);
	CHECK(tane_link_is_running(a, "eth0") == 1);

	/* Ends of one direction, and of both. */
	CHECK(!tane_shutdown(near, SHUT_WR));
	CHECK(tane_recvfrom(far, &len, 1, 0, NULL, NULL) == 0);
	tane_socket_close(near);
	CHECK(tane_link_remove_address(b, "lo", "10.9.0.1/32") == 0);
	CHECK(tane_link_remove_address(b, "lo", "10.9.0.1/32") == -EADDRNOTAVAIL);
	CHECK(!tane_nic_flush(nic_a) && !tane_nic_flush(nic_b));
	CHECK(!stat(pcap, &written) && written.st_size > 500);
	CHECK(!tane_link_impair(a, "eth0", NULL));
	CHECK(tane_link_impair(a, "eth0", NULL) < 0);
	CHECK(!tane_link_down(a, "eth0"));
	CHECK(tane_link_is_running(a, "eth0") == 0);
	tane_nic_close(nic_a);
	CHECK(tane_link_up(a, "eth0") == -ENODEV);
	tane_socket_close(far);
	tane_socket_close(listener);
	tane_nic_close(nic_b);
	tane_kernel_close(a);
	tane_kernel_close(b);
}

static int host_says(struct tane_socket *socket, int events, int timeout)
{
	struct pollfd polled = {
		.fd = tane_socket_poll_fd(socket), .events = events,
	};

	CHECK(polled.fd >= 0);
	CHECK(poll(&polled, 1, timeout) >= 0);
	return polled.revents;
}

static void the_host_waits_for_sockets(void)
{
	struct tane_kernel *kernel = boot();
	struct sockaddr_in at;
	struct tane_socket *listener = listening(kernel, "127.0.0.1", &at);
	struct tane_socket *near = make(kernel, SOCK_STREAM | SOCK_NONBLOCK);
	struct tane_socket *far;
	struct tane_checkpoint *none = NULL;
	uint32_t len = sizeof(int);
	int error = -1;
	char byte;

	CHECK(!tane_socket_nonblocking(listener, 1));
	CHECK(tane_accept(listener, NULL, NULL, 0, &far) == -EAGAIN);
	CHECK(!(host_says(listener, POLLIN, 0) & POLLIN));
	host_says(near, POLLOUT, 0);
	error = tane_connect(near, &at, sizeof(at));
	CHECK(!error || error == -EINPROGRESS);
	CHECK(host_says(near, POLLOUT, 60000) & POLLOUT);
	CHECK(!tane_getsockopt(near, SOL_SOCKET, SO_ERROR, &error, &len));
	CHECK(!error);
	CHECK(host_says(listener, POLLIN, 60000) & POLLIN);
	CHECK(!tane_accept(listener, NULL, NULL, SOCK_NONBLOCK, &far));
	CHECK(host_says(far, POLLOUT, 60000) == POLLOUT);
	CHECK(tane_recvfrom(far, &byte, 1, 0, NULL, NULL) == -EAGAIN);
	CHECK(tane_checkpoint(kernel, &none) == -EBUSY);
	CHECK(tane_sendto(near, "x", 1, 0, NULL, 0) == 1);
	CHECK(host_says(far, POLLIN, 60000) & POLLIN);
	CHECK(tane_recvfrom(far, &byte, 1, 0, NULL, NULL) == 1 && byte == 'x');
	CHECK(!(host_says(far, POLLIN, 0) & POLLIN));
	tane_socket_close(near);
	CHECK(host_says(far, POLLIN, 60000) & POLLIN);
	CHECK(tane_recvfrom(far, &byte, 1, 0, NULL, NULL) == 0);
	tane_socket_close(far);
	tane_socket_close(listener);
	tane_kernel_close(kernel);
}

static void datagrams_and_other_families_work_too(void)
{
	struct tane_kernel *kernel = boot();
	struct tane_socket *a = make(kernel, SOCK_DGRAM);
	struct tane_socket *b = make(kernel, SOCK_DGRAM), *of_unix, *peer;
	struct sockaddr_in at = in4("127.0.0.1", 5353), from;
	struct sockaddr_un name = { .sun_family = AF_UNIX, .sun_path = "\0tane" };
	uint32_t len = sizeof(from), size = sizeof(sa_family_t) + 5;
	char buf[8];

	CHECK(!tane_bind(a, &at, sizeof(at)));
	CHECK(tane_bind(b, &at, sizeof(at)) == -EADDRINUSE);
	CHECK(strstr(tane_error_message(), "bind"));
	CHECK(tane_sendto(b, "ping", 4, 0, &at, sizeof(at)) == 4);
	CHECK(tane_recvfrom(a, buf, sizeof(buf), 0, &from, &len) == 4);
	CHECK(!tane_connect(a, &from, len));
	CHECK(!tane_getpeername(a, &from, &len));
	CHECK(tane_sendto(a, "pong", 4, 0, NULL, 0) == 4);
	CHECK(tane_recvfrom(b, buf, sizeof(buf), 0, NULL, NULL) == 4);
	/* Nobody is there any more, which the next call is told. */
	tane_socket_close(b);
	CHECK(tane_sendto(a, "who?", 4, 0, NULL, 0) == 4);
	CHECK(tane_recvfrom(a, buf, sizeof(buf), 0, NULL, NULL) == -ECONNREFUSED);
	tane_socket_close(a);

	CHECK(!tane_socket(kernel, AF_UNIX, SOCK_SEQPACKET, 0, &of_unix));
	CHECK(!tane_bind(of_unix, &name, size));
	CHECK(!tane_listen(of_unix, 1));
	CHECK(!tane_socket(kernel, AF_UNIX, SOCK_SEQPACKET, 0, &peer));
	CHECK(!tane_connect(peer, &name, size));
	CHECK(!tane_accept(of_unix, NULL, NULL, 0, &a));
	talk(peer, a);
	CHECK(tane_syscall(kernel, SYS_close, tane_socket_fd(peer), 0, 0, 0, 0, 0) == 0);
	CHECK(tane_recvfrom(a, buf, sizeof(buf), 0, NULL, NULL) == 0);
	CHECK(tane_sendto(a, "x", 1, 0, NULL, 0) == -EPIPE);
	tane_socket_close(a);
	tane_socket_close(of_unix);
	/* That descriptor is closed already. */
	tane_socket_close(peer);
	tane_kernel_close(kernel);
}

static void *serve(void *arg)
{
	int fd = accept(*(int *)arg, NULL, NULL);
	char buf[16];
	ssize_t n = read(fd, buf, sizeof(buf));

	CHECK(fd >= 0 && n == 5 && write(fd, buf, n) == n);
	close(fd);
	return NULL;
}

static void user_mode_reaches_what_is_allowed(void)
{
	const char *allow[] = { "host", NULL }, *forwards[] = { "0:8000", NULL };
	const char *wrong[] = { "a b", NULL };
	struct tane_user_network network = {
		.size = sizeof(network), .allow = allow, .forwards = forwards,
	};
	struct tane_kernel *kernel = boot();
	struct tane_nic *nic, *other;
	struct tane_socket *near, *far, *listener;
	struct sockaddr_in at = in4("127.0.0.1", 0), inside;
	socklen_t len = sizeof(at);
	int server = socket(AF_INET, SOCK_STREAM, 0), outside;
	pthread_t thread;
	char buf[16];

	CHECK(!bind(server, (struct sockaddr *)&at, sizeof(at)));
	CHECK(!listen(server, 1));
	CHECK(!getsockname(server, (struct sockaddr *)&at, &len));
	CHECK(!pthread_create(&thread, NULL, serve, &server));

	CHECK(!tane_nic_user(kernel, &network, &nic));
	CHECK(tane_nic_port(nic, 0) > 0 && tane_nic_port(nic, 1) == -EINVAL);
	at.sin_addr = in4("10.0.2.2", 0).sin_addr;
	near = make(kernel, SOCK_STREAM);
	CHECK(!tane_connect(near, &at, sizeof(at)));
	CHECK(tane_sendto(near, "hello", 5, 0, NULL, 0) == 5);
	CHECK(tane_recvfrom(near, buf, sizeof(buf), MSG_WAITALL, NULL, NULL) == 5);
	CHECK(!memcmp(buf, "hello", 5));
	CHECK(!pthread_join(thread, NULL));
	tane_socket_close(near);
	close(server);

	/* And the other way. */
	listener = make(kernel, SOCK_STREAM);
	inside = in4("0.0.0.0", 8000);
	CHECK(!tane_bind(listener, &inside, sizeof(inside)));
	CHECK(!tane_listen(listener, 1));
	outside = socket(AF_INET, SOCK_STREAM, 0);
	at = in4("127.0.0.1", tane_nic_port(nic, 0));
	CHECK(!connect(outside, (struct sockaddr *)&at, sizeof(at)));
	CHECK(!tane_accept(listener, NULL, NULL, 0, &far));
	CHECK(write(outside, "in", 2) == 2);
	CHECK(tane_recvfrom(far, buf, sizeof(buf), 0, NULL, NULL) == 2);
	close(outside);
	tane_socket_close(far);
	tane_socket_close(listener);

	network.allow = wrong;
	CHECK(tane_nic_user(kernel, &network, &other) == -EINVAL);
	CHECK(strstr(tane_error_message(), "is no destination"));
	tane_nic_close(nic);
	tane_kernel_close(kernel);
}

static void names_are_looked_up(void)
{
	struct tane_kernel *kernel = boot();
	char buf[64];

	CHECK(tane_lookup(kernel, "localhost", buf, sizeof(buf)) == 14);
	CHECK(!memcmp(buf, "127.0.0.1\0::1", 14));
	CHECK(tane_lookup(kernel, "::1", NULL, 0) == 4);
	CHECK(tane_lookup(kernel, "localhost", buf, 13) == -ERANGE);
	CHECK(tane_lookup(kernel, "a.example", buf, sizeof(buf)) == -ENONET);
	CHECK(strstr(tane_error_message(), "resolv.conf"));
	tane_kernel_close(kernel);
}

static void sockets_of_the_host_are_wires(void)
{
	struct tane_kernel *a = boot(), *b = boot();
	struct tane_nic *nic_a, *nic_b;
	struct tane_socket *listener, *near, *far;
	struct sockaddr_in at;

	for (int kind = 0; kind < 2; kind++) {
		int type = kind ? SOCK_DGRAM : SOCK_STREAM, ends[2];
		int (*plug)(struct tane_kernel *, int,
			    const struct tane_nic_options *, struct tane_nic **)
			= kind ? tane_nic_datagram : tane_nic_stream;

		CHECK(!socketpair(AF_UNIX, type, 0, ends));
		CHECK(!plug(a, ends[0], NULL, &nic_a));
		CHECK(!plug(b, ends[1], NULL, &nic_b));
		close(ends[0]);
		close(ends[1]);
		CHECK(!tane_link_add_address(a, tane_nic_interface(nic_a), "10.0.0.1/24"));
		CHECK(!tane_link_add_address(b, tane_nic_interface(nic_b), "10.0.0.2/24"));
		CHECK(!tane_link_up(a, tane_nic_interface(nic_a)));
		CHECK(!tane_link_up(b, tane_nic_interface(nic_b)));
		listener = listening(b, "10.0.0.2", &at);
		near = make(a, SOCK_STREAM);
		CHECK(!tane_connect(near, &at, sizeof(at)));
		CHECK(!tane_accept(listener, NULL, NULL, 0, &far));
		talk(near, far);
		tane_socket_close(near);
		tane_socket_close(far);
		tane_socket_close(listener);
		tane_nic_close(nic_a);
		tane_nic_close(nic_b);
	}
	tane_kernel_close(a);
	tane_kernel_close(b);
}

static void what_makes_no_sense_is_refused_with_its_reason(void)
{
	struct tane_nic_options options = { .size = sizeof(options) };
	struct tane_kernel *kernel = boot();
	struct tane_nic *nic = NULL, *other = NULL;
	struct tane_socket *socket = NULL;

	CHECK(tane_socket(NULL, AF_INET, SOCK_STREAM, 0, &socket) == -EFAULT);
	CHECK(tane_socket(kernel, AF_INET, SOCK_STREAM, 0, NULL) == -EFAULT);
	CHECK(tane_socket(kernel, 9999, SOCK_STREAM, 0, &socket) == -EAFNOSUPPORT);
	CHECK(tane_bind(NULL, NULL, 0) == -EFAULT);
	CHECK(tane_socket_poll_fd(NULL) == -EFAULT);
	tane_socket_close(NULL);
	tane_nic_close(NULL);

	options.mtu = 67;
	CHECK(tane_nic_pair(kernel, kernel, &options, &nic, &other) == -EINVAL);
	CHECK(strstr(tane_error_message(), "MTU"));
	options.mtu = 0;
	options.flags = 8;
	CHECK(tane_nic_pair(kernel, kernel, &options, &nic, &other) == -EINVAL);
	options.flags = 0;
	options.mac = (const uint8_t *)"\x01\x11\x22\x33\x44\x55";
	CHECK(tane_nic_pair(kernel, kernel, &options, &nic, &other) == -EINVAL);
	CHECK(tane_nic_pair(kernel, kernel, NULL, &nic, NULL) == -EFAULT);
	options.mac = NULL;
	options.capture = "/nonexistent/file";
	CHECK(tane_nic_pair(kernel, kernel, &options, &nic, &other) == -ENOENT);
	CHECK(strstr(tane_error_message(), "/nonexistent/file"));
	CHECK(tane_nic_stream(kernel, -1, NULL, &nic) == -EBADF);
	CHECK(tane_nic_stream(kernel, 99999, NULL, &nic) == -EBADF);
	CHECK(tane_nic_tap_fd(kernel, 0, NULL, &nic) < 0);
	CHECK(tane_nic_tap(kernel, "a-name-that-is-too-long", NULL, &nic) < 0);
	CHECK(!nic && !other);

	CHECK(tane_link_up(kernel, "eth7") == -ENODEV);
	CHECK(strstr(tane_error_message(), "eth7"));
	CHECK(tane_link_add_address(kernel, "lo", "10.0.0.1/33") == -EINVAL);
	CHECK(tane_link_add_address(kernel, "lo", "lo") == -EINVAL);
	CHECK(tane_route_add(kernel, "10.0.0.0/8", "10.0.0.1") == -ENETUNREACH);
	tane_kernel_halt(kernel);
	CHECK(tane_socket(kernel, AF_INET, SOCK_STREAM, 0, &socket) == -ESHUTDOWN);
	CHECK(!socket);
	tane_kernel_close(kernel);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	alarm(300);
	two_kernels_talk_and_their_packets_are_written_down(argv[1]);
	the_host_waits_for_sockets();
	datagrams_and_other_families_work_too();
	user_mode_reaches_what_is_allowed();
	names_are_looked_up();
	sockets_of_the_host_are_wires();
	what_makes_no_sense_is_refused_with_its_reason();
	return 0;
}

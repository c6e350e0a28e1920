/* SPDX-License-Identifier: GPL-2.0-only */
/* Promises of tane.h about connections over several paths. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <tane.h>

#include "check.h"

static struct tane_kernel *boot(void)
{
	struct tane_kernel *kernel;

	CHECK(!tane_kernel_boot(NULL, &kernel));
	CHECK(!tane_link_up(kernel, "lo"));
	return kernel;
}

static void endpoints_and_limits_are_what_the_kernel_has(void)
{
	struct tane_kernel *kernel = boot();
	struct tane_mptcp_endpoint found[9];
	int lo = tane_link_index(kernel, "lo"), last;
	uint32_t subflows = 7, accepted = 7;
	char address[16];

	CHECK(lo > 0);
	CHECK(tane_mptcp_endpoints(kernel, NULL, 0) == 0);
	CHECK(!tane_mptcp_limits(kernel, &subflows, &accepted));
	CHECK(subflows == 2 && accepted == 0);
	CHECK(!tane_mptcp_set_limits(kernel, 8, 5));
	CHECK(tane_mptcp_set_limits(kernel, 9, 5) == -EINVAL);
	CHECK(!tane_mptcp_limits(kernel, &subflows, &accepted));
	CHECK(subflows == 8 && accepted == 5);
	CHECK(tane_mptcp_limits(kernel, NULL, &accepted) == -EFAULT);

	CHECK(!tane_mptcp_add_endpoint(kernel, NULL, "10.0.0.7",
				       TANE_MPTCP_SUBFLOW | TANE_MPTCP_BACKUP));
	CHECK(!tane_mptcp_add_endpoint(kernel, "lo", "fd00::7", TANE_MPTCP_SIGNAL));
	CHECK(tane_mptcp_endpoints(kernel, found, 9) == 2);
	CHECK(found[0].id == 1 && found[0].flags == 6 && !found[0].link);
	CHECK(!strcmp(found[0].address, "10.0.0.7"));
	CHECK(found[1].id == 2 && found[1].flags == 1 && found[1].link == (uint32_t)lo);
	CHECK(!strcmp(found[1].address, "fd00::7"));
	CHECK(tane_mptcp_endpoints(kernel, found, 1) == 1 && found[0].id == 1);
	CHECK(tane_mptcp_endpoints(kernel, NULL, 1) == -EFAULT);

	CHECK(tane_mptcp_add_endpoint(kernel, NULL, "fd00::7", TANE_MPTCP_SIGNAL) == -EEXIST);
	CHECK(strstr(tane_error_message(), "fd00::7"));
	CHECK(tane_mptcp_add_endpoint(kernel, NULL, "10.0.0.8/24", 1) == -EINVAL);
	CHECK(strstr(tane_error_message(), "10.0.0.8/24"));
	CHECK(tane_mptcp_add_endpoint(kernel, NULL, "10.0.0.8", 32) == -EINVAL);
	CHECK(strstr(tane_error_message(), "flags"));
	CHECK(tane_mptcp_add_endpoint(kernel, NULL, "10.0.0.8", TANE_MPTCP_IMPLICIT) == -EINVAL);
	CHECK(tane_mptcp_add_endpoint(kernel, NULL, "10.0.0.8",
				      TANE_MPTCP_SIGNAL | TANE_MPTCP_FULLMESH) == -EINVAL);
	CHECK(tane_mptcp_add_endpoint(kernel, "eth7", "10.0.0.8", 1) == -ENODEV);
	CHECK(strstr(tane_error_message(), "eth7"));
	CHECK(tane_mptcp_add_endpoint(kernel, NULL, NULL, 1) == -EFAULT);

	CHECK(!tane_mptcp_remove_endpoint(kernel, 1));
	CHECK(tane_mptcp_remove_endpoint(kernel, 1) == -EINVAL);
	CHECK(tane_mptcp_remove_endpoint(kernel, 258) == -EINVAL);
	CHECK(tane_mptcp_endpoints(kernel, found, 9) == 1 && found[0].id == 2);
	CHECK(!tane_mptcp_clear(kernel));
	CHECK(tane_mptcp_endpoints(kernel, found, 9) == 0);
	for (last = 1; last <= 8; last++) {
		snprintf(address, sizeof(address), "10.0.1.%d", last);
		CHECK(!tane_mptcp_add_endpoint(kernel, NULL, address, TANE_MPTCP_SIGNAL));
	}
	CHECK(tane_mptcp_add_endpoint(kernel, NULL, "10.0.1.9", TANE_MPTCP_SIGNAL) == -ERANGE);
	CHECK(tane_mptcp_endpoints(kernel, found, 9) == 8);
	tane_kernel_close(kernel);
}

/* One that listens at all of the kernel's addresses, or connects to 10.0.0.2. */
static struct tane_socket *make(struct tane_kernel *kernel, int protocol, int listens)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(4000) };
	struct tane_socket *socket;

	CHECK(!tane_socket(kernel, AF_INET, SOCK_STREAM, protocol, &socket));
	if (listens) {
		CHECK(!tane_bind(socket, &at, sizeof(at)));
		CHECK(!tane_listen(socket, 2));
	} else {
		CHECK(inet_pton(AF_INET, "10.0.0.2", &at.sin_addr) == 1);
		CHECK(!tane_connect(socket, &at, sizeof(at)));
	}
	return socket;
}

static void a_connection_takes_every_wire_that_it_may(void)
{
	struct tane_kernel *a = boot(), *b = boot();
	struct tane_nic *near[2], *far[2];
	struct tane_socket *listener, *client, *server, *plain;
	struct tane_mptcp_info info = { .size = sizeof(info) };
	struct tane_mptcp_path paths[9];
	char data[1000] = "something", address[16];
	int64_t found;
	int i;

	for (i = 0; i < 2; i++) {
		CHECK(!tane_nic_pair(a, b, NULL, &near[i], &far[i]));
		snprintf(address, sizeof(address), "10.0.%d.1/24", i);
		CHECK(!tane_link_add_address(a, tane_nic_interface(near[i]), address));
		CHECK(!tane_link_up(a, tane_nic_interface(near[i])));
		snprintf(address, sizeof(address), "10.0.%d.2/24", i);
		CHECK(!tane_link_add_address(b, tane_nic_interface(far[i]), address));
		CHECK(!tane_link_up(b, tane_nic_interface(far[i])));
	}
	/* A way that only what is bound to its interface takes. */
	CHECK(!tane_route_add(a, "10.9.0.0/16", "10.0.0.2"));
	CHECK(!tane_link_add_route(a, "eth1", "10.9.0.0/16", "10.0.1.2", 5));
	CHECK(tane_link_add_route(a, "eth1", "10.9.0.0/16", "10.0.1.2", 5) == -EEXIST);
	CHECK(tane_link_add_route(a, "eth1", "10.9.0.0/16", "10.7.0.1", 6) == -ENETUNREACH);
	CHECK(tane_link_add_route(a, "eth7", "10.9.0.0/16", "10.0.1.2", 5) == -ENODEV);
	CHECK(!tane_mptcp_set_limits(a, 1, 1) && !tane_mptcp_set_limits(b, 1, 1));
	CHECK(!tane_mptcp_add_endpoint(b, NULL, "10.0.1.2", TANE_MPTCP_SIGNAL));

	listener = make(b, IPPROTO_MPTCP, 1);
	client = make(a, IPPROTO_MPTCP, 0);
	CHECK(!tane_accept(listener, NULL, NULL, 0, &server));
	/* The other address is told with what is sent, and joined in time. */
	for (i = 0; i < 1000; i++) {
		CHECK(tane_sendto(client, data, sizeof(data), 0, NULL, 0) == sizeof(data));
		CHECK(tane_recvfrom(server, data, sizeof(data), MSG_WAITALL, NULL, NULL) ==
		      sizeof(data));
		found = tane_mptcp_info(client, &info, paths, 9);
		CHECK(found > 0);
		if (found == 2)
			break;
		usleep(10000);
	}
	CHECK(found == 2 && paths[0].id && paths[0].id != paths[1].id);
	CHECK(!strncmp(paths[0].local, "10.0.0.1:", 9));
	CHECK(!strcmp(paths[0].remote, "10.0.0.2:4000"));
	CHECK(!strncmp(paths[1].local, "10.0.1.1:", 9));
	CHECK(!strcmp(paths[1].remote, "10.0.1.2:4000"));
	CHECK(info.bytes_sent >= sizeof(data) && !info.bytes_received);
	CHECK(paths[0].bytes_sent >= sizeof(data) && paths[0].congestion_window && paths[0].rtt);
	CHECK(tane_mptcp_info(server, &info, paths, 1) == 1);
	CHECK(info.bytes_received >= sizeof(data) && !info.bytes_sent);
	CHECK(tane_mptcp_info(server, NULL, NULL, 0) == 0);
	CHECK(tane_mptcp_info(server, NULL, NULL, 1) == -EFAULT);
	CHECK(tane_mptcp_info(NULL, NULL, paths, 9) == -EFAULT);
	info.size = 3;
	CHECK(tane_mptcp_info(server, &info, paths, 9) == -EINVAL);

	/* One of TCP's has no paths. */
	plain = make(a, 0, 0);
	CHECK(tane_mptcp_info(plain, NULL, paths, 9) == -EOPNOTSUPP);
	tane_socket_close(plain);
	tane_socket_close(client);
	tane_socket_close(server);
	tane_socket_close(listener);
	for (i = 0; i < 2; i++) {
		tane_nic_close(near[i]);
		tane_nic_close(far[i]);
	}
	tane_kernel_close(a);
	tane_kernel_close(b);
}

int main(void)
{
	alarm(300);
	endpoints_and_limits_are_what_the_kernel_has();
	a_connection_takes_every_wire_that_it_may();
	return 0;
}

# SPDX-License-Identifier: GPL-2.0-only
"""Promises about a kernel's network: programs for the host's sockets run on it."""

from __future__ import annotations

import asyncio
import errno
import http.server
import os
import select
import signal
import socket
import socketserver
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3

import tane
import tane.socket

LONG = 60.0


@pytest.fixture
def kernel() -> Iterator[tane.Kernel]:
    with tane.Kernel() as kernel:
        kernel.network.link("lo").up()
        yield kernel


@pytest.fixture
def two(kernel: tane.Kernel) -> Iterator[tuple[tane.Network, tane.Network]]:
    """10.0.0.1 and 10.0.0.2, on a wire."""
    with tane.Kernel() as other:
        nics = kernel.network.pair(other.network)
        for number, nic in enumerate(nics, 1):
            nic.add_address(f"10.0.0.{number}/24")
            nic.add_address(f"fd00::{number}/64")
            nic.up()
        yield kernel.network, other.network


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(f"GET {self.path}".encode())

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def serving(listener: Any) -> Iterator[int]:
    """A real http.server on a socket that listens: of the host's or a kernel's."""
    server = http.server.ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetch(network: tane.Network, url: str) -> None:
    """By each of them."""
    host, port = url.split("/")[2].rsplit(":", 1)
    large = os.urandom(3_000_000)
    connection = network.http_connection(host.strip("[]"), int(port), timeout=LONG)
    for body in (b"", b"x", large):
        connection.request("POST", "/", body)
        assert connection.getresponse().read() == body
    connection.close()
    with network.urlopen(url + "/a", timeout=LONG) as answer:
        assert answer.read() == b"GET /a"

    class Connection(urllib3.connection.HTTPConnection):
        def _new_conn(self) -> Any:
            return network.create_connection((self.host.strip("[]"), self.port), LONG)

    class Pool(urllib3.HTTPConnectionPool):
        ConnectionCls = Connection

    with urllib3.PoolManager() as pool:
        pool.pool_classes_by_scheme = {"http": Pool}
        for _ in range(3):
            answer = pool.request("POST", url, body=large)
            assert answer.data == large
        assert pool.connection_from_url(url).num_connections == 1


def test_http_runs_inside_one_kernel(kernel: tane.Kernel) -> None:
    with serving(kernel.network.create_server(("127.0.0.1", 0))) as port:
        fetch(kernel.network, f"http://127.0.0.1:{port}")
        fetch(kernel.network, f"http://localhost:{port}")


def test_http_runs_between_two_kernels(two: tuple[tane.Network, tane.Network]) -> None:
    here, there = two
    with serving(there.create_server(("10.0.0.2", 0))) as port:
        fetch(here, f"http://10.0.0.2:{port}")
        # In a thread that is not the main one.
        failed: list[BaseException] = []

        def client() -> None:
            try:
                fetch(here, f"http://10.0.0.2:{port}")
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=client) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
    server = there.create_server(("fd00::2", 0), family=socket.AF_INET6)
    with serving(server) as port:
        fetch(here, f"http://[fd00::2]:{port}")


def test_user_mode_reaches_the_host_and_is_reached_by_it(kernel: tane.Kernel) -> None:
    network = kernel.network
    with network.user(allow=["host"], forwards=["0:8000"]) as nic:
        with serving(socket.create_server(("127.0.0.1", 0))) as port:
            fetch(network, f"http://10.0.2.2:{port}")
        with serving(network.create_server(("", 8000))):
            (port,) = nic.ports
            for _ in range(3):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/in") as answer:
                    assert answer.read() == b"GET /in"
    with pytest.raises(OSError, match="is no destination") as wrong:
        network.user(allow=["a b"])
    assert wrong.value.errno == errno.EINVAL
    with pytest.raises(TypeError):
        network.user(allow="host")


def test_a_network_is_as_slow_as_it_was_asked_to_be(
    two: tuple[tane.Network, tane.Network],
) -> None:
    here, there = two
    link = here.link("eth0")
    link.impair("delay=80ms")
    with there.create_server(("10.0.0.2", 0)) as listener:
        begun = time.monotonic()
        here.create_connection(listener.getsockname(), LONG).close()
        assert time.monotonic() - begun >= 0.08
        link.impair(None)
        with pytest.raises(OSError, match="delay=100ms") as wrong:
            link.impair("delay")
        assert wrong.value.errno == errno.EINVAL


def test_asyncio_serves_and_connects(two: tuple[tane.Network, tane.Network]) -> None:
    here, there = two

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100_000):
            writer.write(data)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def client(number: int, address: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        stream: Any = here.socket()
        stream.setblocking(False)
        await loop.sock_connect(stream, address)
        reader, writer = await asyncio.open_connection(sock=stream)
        data = os.urandom(50_000 * number + 1)
        writer.writelines([data[:100], data[100:]])
        writer.write_eof()
        assert await reader.read() == data
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        listener: Any = there.create_server(("10.0.0.2", 0))
        listener.setblocking(False)
        server = await asyncio.start_server(echo, sock=listener)
        async with server, asyncio.timeout(LONG):
            address = listener.getsockname()
            await asyncio.gather(*(client(n, address) for n in range(20)))

    asyncio.run(main())


def test_asyncio_waits_for_datagrams_and_gives_up_in_time(kernel: tane.Kernel) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        near: Any = kernel.network.socket(type=socket.SOCK_DGRAM)
        far: Any = kernel.network.socket(type=socket.SOCK_DGRAM)
        for one in (near, far):
            one.setblocking(False)
            one.bind(("127.0.0.1", 0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await loop.sock_recv(near, 100)
        await loop.sock_sendto(far, b"ping", near.getsockname())
        async with asyncio.timeout(LONG):
            data, source = await loop.sock_recvfrom(near, 100)
        assert (data, source) == (b"ping", far.getsockname())
        near.close()
        far.close()

    asyncio.run(main())


def pair(network: tane.Network) -> tuple[tane.socket.Socket, tane.socket.Socket]:
    with network.create_server(("127.0.0.1", 0)) as listener:
        near = network.create_connection(listener.getsockname(), LONG)
        far, source = listener.accept()
        assert source == near.getsockname()
        assert far.getpeername() == source
        far.settimeout(LONG)
        return near, far


def test_calls_are_those_of_the_hosts_sockets(kernel: tane.Kernel) -> None:
    """The same lines, on both."""

    def talk(near: Any, far: Any) -> None:
        near.sendall(memoryview(b"hello"))
        assert far.recv(100, socket.MSG_PEEK) == b"hello"
        memory = bytearray(8)
        assert far.recv_into(memory, 2) == 2
        assert far.recv_into(memoryview(memory)[2:]) == 3
        assert memory == b"hello\0\0\0"
        assert far.sendmsg([b"two ", bytearray(b"parts")]) == 9
        assert near.recvfrom(100)[0] == b"two parts"
        with near.makefile("rw", newline="\n") as file:
            print("a line", file=file, flush=True)
            assert far.recv(100) == b"a line\n"
            near.setblocking(False)
            assert near.gettimeout() == 0 and not near.getblocking()
            with pytest.raises(BlockingIOError):
                near.recv(1)
        near.settimeout(0.05)
        begun = time.monotonic()
        with pytest.raises(TimeoutError):
            near.recv(1)
        assert time.monotonic() - begun >= 0.05
        assert near.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
        near.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        assert near.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 4) == b"\1\0\0\0"
        near.shutdown(socket.SHUT_WR)
        assert far.recv(1) == b""
        assert select.select([far], [far], [], 0) == ([far], [far], [])
        with pytest.raises(ValueError):
            near.recv_into(memory, 9)
        far.close()
        assert far.fileno() == -1
        with pytest.raises(OSError) as closed:
            far.send(b"x")
        assert closed.value.errno == errno.EBADF
        near.close()
        near.close()

    talk(*pair(kernel.network))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        talk(near, far)


def test_a_file_of_a_socket_keeps_it_open(kernel: tane.Kernel) -> None:
    near, far = pair(kernel.network)
    file = near.makefile("wb")
    near.close()
    file.write(b"after")
    file.close()
    assert far.makefile("rb").read() == b"after"
    far.close()


def test_connections_that_are_not_made_say_why(
    two: tuple[tane.Network, tane.Network],
) -> None:
    here, _ = two
    with pytest.raises(ConnectionRefusedError):
        here.create_connection(("10.0.0.2", 9))
    # Nobody has this address.
    with pytest.raises(TimeoutError):
        here.create_connection(("10.0.0.99", 9), 0.1)
    stream = here.socket()
    stream.settimeout(0)
    assert stream.connect_ex(("10.0.0.99", 9)) == errno.EINPROGRESS
    stream.close()
    with pytest.raises(OSError) as far:
        here.create_connection(("192.0.2.1", 9))
    assert far.value.errno == errno.ENETUNREACH
    with pytest.raises(socket.gaierror, match=r"resolv\.conf"):
        here.create_connection(("a.example", 9))
    with pytest.raises(urllib.error.URLError):
        here.urlopen("http://10.0.0.2:9/")
    with pytest.raises(urllib.error.URLError, match="unknown url type"):
        here.urlopen("https://10.0.0.2/")
    with pytest.raises(OverflowError):
        here.create_connection(("10.0.0.2", 65536))
    with pytest.raises(TypeError):
        here.socket().connect("10.0.0.2:9")
    with pytest.raises(OSError, match="eth7") as none:
        here.link("eth7").up()
    assert none.value.errno == errno.ENODEV


def test_a_signal_ends_a_call_that_waits(kernel: tane.Kernel) -> None:
    near, far = pair(kernel.network)
    near.settimeout(None)

    class Enough(Exception):
        pass

    def enough(*_: object) -> None:
        raise Enough

    before = signal.signal(signal.SIGALRM, enough)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(Enough):
            near.recv(1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    far.sendall(b"x")
    assert near.recv(1) == b"x"
    near.close()
    far.close()


def test_the_end_of_a_kernel_ends_a_call_that_waits(kernel: tane.Kernel) -> None:
    near, _far = pair(kernel.network)
    near.settimeout(None)
    threading.Timer(0.1, kernel.halt).start()
    with pytest.raises(tane.KernelError):
        near.recv(1)


def test_socketserver_and_unix_sockets_are_the_kernels(kernel: tane.Kernel) -> None:
    class Server(socketserver.TCPServer):
        def server_bind(self) -> None:
            self.socket.close()
            inside: Any = kernel.network.socket(socket.AF_UNIX)
            self.socket = inside
            self.socket.bind("\0tane")

        def get_request(self) -> Any:
            return self.socket.accept()

    class Upper(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(self.rfile.readline().upper())

    with Server(("", 0), Upper) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with kernel.network.socket(socket.AF_UNIX) as client:
            client.connect("\0tane")
            client.sendall(b"hello\n")
            assert client.makefile("rb").read() == b"HELLO\n"
        thread.join()


def test_packets_are_written_down_and_wires_may_be_the_hosts(
    kernel: tane.Kernel, tmp_path: Path
) -> None:
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    capture = tmp_path / "packets.pcapng"
    with tane.Kernel() as other:
        nics = (
            kernel.network.stream(ends[0], capture=capture, plain=True, mtu=1400),
            other.network.stream(ends[1]),
        )
        for end in ends:
            end.close()
        for number, nic in enumerate(nics, 1):
            nic.add_address(f"10.0.0.{number}/24")
            nic.up()
        with other.network.create_server(("10.0.0.2", 80)) as listener:
            near = kernel.network.create_connection(("10.0.0.2", 80), LONG)
            near.sendall(b"something to be found")
            far, _ = listener.accept()
            assert far.recv(100) == b"something to be found"
            nics[0].flush()
            assert b"something to be found" in capture.read_bytes()
            near.close()
            far.close()
        assert nics[0].is_running
        nics[1].close()
        with pytest.raises(ValueError, match="six bytes"):
            kernel.network.pair(other.network, mac=b"12345")


def test_a_fork_cannot_use_its_parents_sockets(kernel: tane.Kernel) -> None:
    near, far = pair(kernel.network)
    near.fileno()
    child = os.fork()
    if child == 0:
        try:
            near.send(b"x")
        except tane.ForkError:
            near.close()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    near.sendall(b"y")
    assert far.recv(10) == b"y"
    near.close()
    far.close()

# SPDX-License-Identifier: GPL-2.0-only
"""A kernel's network."""

from __future__ import annotations

import errno
import http.client
import os
import socket as _host
import urllib.request
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._errors import fail, message
from ._mptcp import Mptcp
from ._nic import Link, Nic, lists, options
from ._sockaddr import Address
from ._tane import ffi, lib
from .socket import Socket

if TYPE_CHECKING:
    from ._kernel import Kernel

_NOT_GIVEN: Any = object()


class Network:
    """What a kernel's network has, as `socket` has the host's: `Kernel.network`.

    A new kernel has the interface "lo" alone, which is down. `user` joins it to the
    host's network, `pair` to another kernel, `tap`, `stream` and `datagram` to what is
    at the other end (docs/net.md).
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def _make(self, call: Any, *args: Any) -> Nic:
        to = ffi.new("struct tane_nic **")
        answer = call(self.kernel._get(), *args, to)
        if answer < 0:
            fail(-answer, None, message(), made=self.kernel._forks)
        return Nic(self.kernel, to[0])

    # ---- interfaces ----

    def user(
        self,
        *,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] | None = None,
        forwards: Iterable[str] | None = None,
        resolvers: Iterable[str] | None = None,
    ) -> Nic:
        """Let the kernel use the host's network, through sockets of this process.

        `allow` and `deny` are destinations ("10.0.0.0/8", "*.example.com:443",
        "host:5432"), `forwards` ports of the host's that lead inside ("8080:80";
        `Nic.ports` has those that were free), `resolvers` who is asked for names, if
        not the host's. The interface is up and has its addresses.
        """
        keep: list[Any] = []
        given = ffi.new("struct tane_user_network *")
        given.size = ffi.sizeof("struct tane_user_network")
        given.allow, given.deny = lists(allow, keep), lists(deny, keep)
        given.forwards = lists(forwards, keep)
        given.resolvers = lists(resolvers, keep)
        return self._make(lib.tane_nic_user, given)

    def pair(
        self,
        other: Network,
        *,
        mtu: int | None = None,
        mac: bytes | None = None,
        capture: str | os.PathLike[str] | None = None,
        plain: bool = False,
    ) -> tuple[Nic, Nic]:
        """Join two kernels by a wire: a card in this one, and one in the other.

        `capture` is a file that gets all packets, as pcapng. The interfaces are down.
        """
        given, _keep = options(mtu, mac, capture, plain)
        to = ffi.new("struct tane_nic *[2]")
        a, b = self.kernel._get(), other.kernel._get()
        answer = lib.tane_nic_pair(a, b, given, to, to + 1)
        if answer < 0:
            fail(-answer, None, message(), made=self.kernel._forks)
        return Nic(self.kernel, to[0]), Nic(other.kernel, to[1])

    def tap(
        self,
        which: str | int | None = None,
        *,
        mtu: int | None = None,
        mac: bytes | None = None,
        capture: str | os.PathLike[str] | None = None,
        plain: bool = False,
    ) -> Nic:
        """A card at a tap interface of the host's: its name, a descriptor of one, or
        None for a new one."""
        given, _keep = options(mtu, mac, capture, plain)
        if isinstance(which, int):
            return self._make(lib.tane_nic_tap_fd, which, given)
        name = ffi.NULL if which is None else os.fsencode(which) + b"\0"
        return self._make(lib.tane_nic_tap, name, given)

    def stream(
        self,
        socket: _host.socket | int,
        *,
        mtu: int | None = None,
        mac: bytes | None = None,
        capture: str | os.PathLike[str] | None = None,
        plain: bool = False,
    ) -> Nic:
        """A card at a Unix socket of the host's on which frames stand behind their
        lengths: passt, QEMU. The socket may be closed then."""
        given, _keep = options(mtu, mac, capture, plain)
        fd = socket if isinstance(socket, int) else socket.fileno()
        return self._make(lib.tane_nic_stream, fd, given)

    def datagram(
        self,
        socket: _host.socket | int,
        *,
        mtu: int | None = None,
        mac: bytes | None = None,
        capture: str | os.PathLike[str] | None = None,
        plain: bool = False,
    ) -> Nic:
        """The same at one on which each frame is a datagram."""
        given, _keep = options(mtu, mac, capture, plain)
        fd = socket if isinstance(socket, int) else socket.fileno()
        return self._make(lib.tane_nic_datagram, fd, given)

    def link(self, name: str) -> Link:
        """The interface of this name. OSError ENODEV, when it is used: there is
        none."""
        return Link(self.kernel, name)

    def add_route(self, network: str, gateway: str) -> None:
        """Send what is for `network` ("10.1.0.0/16", "0.0.0.0/0") by way of
        `gateway`."""
        words = (text.encode() + b"\0" for text in (network, gateway))
        answer = lib.tane_route_add(self.kernel._get(), *words)
        if answer < 0:
            fail(-answer, None, message(), made=self.kernel._forks)

    @property
    def mptcp(self) -> Mptcp:
        """Which addresses its connections over several paths may take."""
        return Mptcp(self.kernel)

    # ---- names ----

    def lookup(self, name: str) -> list[str]:
        """The addresses of a name, those of IPv4 first: by the kernel's /etc/hosts and
        the resolvers of its /etc/resolv.conf, which are the host's in user mode.

        socket.gaierror: there is no such name, or nobody tells; OSError: the kernel has
        ended.
        """
        said = name.encode("idna") if not name.isascii() else name.encode()
        size = 4096
        room = ffi.new("char[]", size)
        answer = lib.tane_lookup(self.kernel._get(), said + b"\0", room, size)
        if answer < 0:
            code = _NAMES.get(-answer)
            if code is not None:
                raise _host.gaierror(code, message())
            fail(-answer, None, message(), made=self.kernel._forks)
        text: str = ffi.buffer(room, answer)[:].decode()
        return text.split("\0")[:-1]

    def getaddrinfo(
        self,
        host: str | None,
        port: int | str | None,
        family: int = 0,
        type: int = 0,
        proto: int = 0,
        flags: int = 0,
    ) -> list[tuple[int, int, int, str, Any]]:
        """As that of `socket`, for ports that are numbers."""
        passive = flags & _host.AI_PASSIVE
        if host:
            found = self.lookup(host)
        else:
            found = ["0.0.0.0", "::"] if passive else ["127.0.0.1", "::1"]
        number = int(port or 0)
        kinds = [
            (kind, protocol)
            for kind, protocol in (
                (_host.SOCK_STREAM, _host.IPPROTO_TCP),
                (_host.SOCK_DGRAM, _host.IPPROTO_UDP),
            )
            if type in (0, kind) and proto in (0, protocol)
        ]
        answers: list[tuple[int, int, int, str, Any]] = []
        for ip in found:
            of = _host.AF_INET6 if ":" in ip else _host.AF_INET
            if family in (0, of):
                name = (ip, number, 0, 0) if ":" in ip else (ip, number)
                answers += [(of, kind, protocol, "", name) for kind, protocol in kinds]
        if not answers:
            text = f"{host}: no address of that kind"
            raise _host.gaierror(_host.EAI_NONAME, text)
        return answers

    # ---- sockets ----

    def socket(
        self,
        family: int = _host.AF_INET,
        type: int = _host.SOCK_STREAM,
        proto: int = 0,
    ) -> Socket:
        """A socket of the kernel's, with the methods of `socket.socket`."""
        return Socket(self.kernel, family, type, proto)

    def create_connection(
        self,
        address: tuple[str, int],
        timeout: float | None = _NOT_GIVEN,
        source_address: Address | None = None,
        *,
        all_errors: bool = False,
    ) -> Socket:
        """As `socket.create_connection`."""
        host, port = address
        errors: list[Exception] = []
        for family, kind, proto, _, name in self.getaddrinfo(
            host, port, 0, _host.SOCK_STREAM
        ):
            stream = self.socket(family, kind, proto)
            try:
                if timeout is not _NOT_GIVEN:
                    stream.settimeout(timeout)
                if source_address:
                    stream.bind(source_address)
                stream.connect(name)
                return stream
            except OSError as error:
                errors.append(error)
                stream.close()
        try:
            if all_errors and len(errors) > 1:
                raise ExceptionGroup("create_connection failed", errors)
            raise errors[0]
        finally:
            errors.clear()

    def create_server(
        self,
        address: Address,
        *,
        family: int = _host.AF_INET,
        backlog: int | None = None,
        reuse_port: bool = False,
        dualstack_ipv6: bool = False,
    ) -> Socket:
        """As `socket.create_server`: one that listens there."""
        if dualstack_ipv6 and family != _host.AF_INET6:
            raise ValueError("dualstack_ipv6 requires AF_INET6 family")
        server = self.socket(family)
        try:
            server.setsockopt(_host.SOL_SOCKET, _host.SO_REUSEADDR, 1)
            if reuse_port:
                server.setsockopt(_host.SOL_SOCKET, _host.SO_REUSEPORT, 1)
            if family == _host.AF_INET6:
                only = 0 if dualstack_ipv6 else 1
                server.setsockopt(_host.IPPROTO_IPV6, _host.IPV6_V6ONLY, only)
            server.bind(address)
            server.listen() if backlog is None else server.listen(backlog)
        except BaseException:
            server.close()
            raise
        return server

    # ---- HTTP ----

    def http_connection(
        self, host: str, port: int | None = None, **options: Any
    ) -> http.client.HTTPConnection:
        """An `http.client.HTTPConnection` through this network."""
        connection = http.client.HTTPConnection(host, port, **options)
        made: Any = connection
        made._create_connection = self.create_connection
        return connection

    def opener(self) -> urllib.request.OpenerDirector:
        """What opens URLs of http through this network, as
        `urllib.request.build_opener` does; the host's proxies are not asked."""
        opener = urllib.request.OpenerDirector()
        for handler in (
            _Handler(self),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPRedirectHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            opener.add_handler(handler)
        return opener

    def urlopen(self, url: Any, data: Any = None, timeout: float | None = None) -> Any:
        """As `urllib.request.urlopen`, of http."""
        return self.opener().open(url, data, timeout)

    def __repr__(self) -> str:
        return f"<tane.Network of {self.kernel!r}>"


class _Handler(urllib.request.HTTPHandler):
    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        connect: Any = self._network.http_connection
        return self.do_open(connect, req)


# What nobody could tell of a name, as getaddrinfo(3) has it.
_NAMES = {
    errno.ENOENT: _host.EAI_NONAME,
    errno.EACCES: _host.EAI_FAIL,
    errno.EAGAIN: _host.EAI_AGAIN,
    errno.ETIMEDOUT: _host.EAI_AGAIN,
    errno.ENONET: _host.EAI_FAIL,
}

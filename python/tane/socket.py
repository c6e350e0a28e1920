# SPDX-License-Identifier: GPL-2.0-only
"""Sockets of a kernel's, for programs that know the host's.

A `Socket` has the methods of `socket.socket`, with the same meaning, arguments and
errors, but is inside a kernel of this process, whose addresses and ports are its own.
So http.client, urllib.request, http.server, asyncio and what else takes a socket that
was made elsewhere run on it. `Network` makes them:

>>> kernel = tane.Kernel()
>>> kernel.network.link("lo").up()
>>> with kernel.network.create_connection(("127.0.0.1", 80)) as stream:
...     stream.sendall(b"...")

`fileno()` is a descriptor of the host's that is ready when the socket is: select,
selectors and asyncio wait for it. Nothing else can be done with it, and `ssl` wraps no
such socket; asyncio has a TLS of its own, not tried here.
"""

from __future__ import annotations

import errno
import select
import socket as _host
import struct
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._closing import Closing
from ._errors import fail, message
from ._mptcp import MptcpInfo, asked
from ._sockaddr import Address, pack, unpack
from ._tane import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._kernel import Kernel

_POLL = 7
_BACKLOG = 128
_NAME = 128
_READ, _WRITE = select.POLLIN, select.POLLOUT
# What is received into is written before it is read.
_memory = ffi.new_allocator(should_clear_after_alloc=False)


class Socket(Closing):
    """Like `socket.socket`, inside a kernel.

    `kernel` is one in this process; the rest as for the host's. Calls wait as
    `settimeout` says; a signal's handler runs meanwhile, in the main thread, and what
    it raises ends the call. Any thread may use it, and end it by `shutdown`. Errors are
    OSErrors, `TimeoutError` and so on, and `KernelError` once the kernel has ended.
    """

    def __init__(
        self,
        kernel: Kernel,
        family: int = _host.AF_INET,
        type: int = _host.SOCK_STREAM,
        proto: int = 0,
    ) -> None:
        to = ffi.new("struct tane_socket **")
        kind = type | _host.SOCK_NONBLOCK
        answer = lib.tane_socket(kernel._get(), family, kind, proto, to)
        if answer < 0:
            fail(-answer, None, message(), made=kernel._forks)
        self._be(kernel, to[0], family, type & ~_host.SOCK_NONBLOCK, proto)

    def _be(
        self, kernel: Kernel, handle: Any, family: int, type: int, proto: int
    ) -> None:
        self._kernel = kernel
        self._handle: Any = ffi.gc(handle, lib.tane_socket_close)
        self.family = _host.AddressFamily(family)
        self.type = _host.SocketKind(type)
        self.proto = proto
        self._timeout = _host.getdefaulttimeout()
        # Of makefile(), whose files keep it open, as the host's do.
        self._io_refs = 0
        self._closed = False

    def _get(self) -> Any:
        """Whoever has it keeps it open until his call is over."""
        handle = self._handle
        if handle is None:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return handle

    def _fail(self, code: int) -> None:
        fail(code, made=self._kernel._forks)

    def _must(self, answer: int) -> int:
        if answer < 0:
            self._fail(-answer)
        return answer

    # ---- waiting ----

    def _wait(self, handle: Any, event: int, until: float | None) -> None:
        """Until it may be ready for this, or that time. The main thread waits by a
        call of the host's, which signals interrupt; others inside the kernel, which is
        shorter."""
        left = -1
        if until is not None:
            left = int(max(0, until - time.monotonic()) * 1000) + 1
            if until <= time.monotonic():
                raise TimeoutError("timed out")
        if threading.current_thread() is threading.main_thread():
            poll = select.poll()
            poll.register(self._must(lib.tane_socket_poll_fd(handle)), event)
            poll.poll(left)
            return
        fd = self._must(lib.tane_socket_fd(handle))
        polled = bytearray(struct.pack("=ihh", fd, event, 0))
        at = int(ffi.cast("uintptr_t", ffi.from_buffer(polled)))
        kernel = self._kernel._get()
        time_left = left & 0xFFFF_FFFF_FFFF_FFFF
        self._must(lib.tane_syscall(kernel, _POLL, at, 1, time_left, 0, 0, 0))

    def _until(self) -> float | None:
        return None if self._timeout is None else time.monotonic() + self._timeout

    def _do(
        self, event: int, call: Callable[[Any], int], until: float | None = None
    ) -> int:
        """Call until it does not have to wait any more."""
        handle = self._get()
        if until is None:
            until = self._until()
        while True:
            answer = call(handle)
            if answer >= 0:
                return answer
            if answer != -errno.EAGAIN or self._timeout == 0:
                self._fail(-answer)
            self._wait(handle, event, until)

    def fileno(self) -> int:
        """A descriptor of the host's that is readable and writable when the socket is;
        -1 if it is closed."""
        if self._handle is None:
            return -1
        return self._must(int(lib.tane_socket_poll_fd(self._handle)))

    def settimeout(self, value: float | None) -> None:
        if value is not None and value < 0:
            raise ValueError("Timeout value out of range")
        self._timeout = value

    def gettimeout(self) -> float | None:
        return self._timeout

    timeout = property(gettimeout)

    def setblocking(self, flag: bool) -> None:
        self.settimeout(None if flag else 0.0)

    def getblocking(self) -> bool:
        return self._timeout != 0

    # ---- connections ----

    def bind(self, address: Address) -> None:
        name = pack(self._kernel, self.family, address)
        self._must(lib.tane_bind(self._get(), name, len(name)))

    def listen(self, backlog: int = _BACKLOG) -> None:
        self._must(lib.tane_listen(self._get(), max(0, backlog)))

    def accept(self) -> tuple[Socket, Any]:
        to = ffi.new("struct tane_socket **")
        name, size = ffi.new("char[]", _NAME), ffi.new("uint32_t *", _NAME)
        flags = _host.SOCK_NONBLOCK
        self._do(_READ, lambda at: int(lib.tane_accept(at, name, size, flags, to)))
        other = Socket.__new__(Socket)
        other._be(self._kernel, to[0], self.family, self.type, self.proto)
        return other, unpack(ffi.buffer(name, min(size[0], _NAME))[:])

    def connect_ex(self, address: Address) -> int:
        """The errno, rather than an error."""
        try:
            self.connect(address)
        except TimeoutError as error:
            return error.errno or errno.EAGAIN
        except OSError as error:
            if error.errno is None:
                raise
            return error.errno
        return 0

    def connect(self, address: Address) -> None:
        handle, until = self._get(), self._until()
        name = pack(self._kernel, self.family, address)
        answer = lib.tane_connect(handle, name, len(name))
        if answer == -errno.EINPROGRESS and self._timeout != 0:
            while not self._is_connected(handle):
                self._wait(handle, _WRITE, until)
            answer = -self.getsockopt(_host.SOL_SOCKET, _host.SO_ERROR)
        self._must(answer)

    def _is_connected(self, handle: Any) -> bool:
        """Or has failed to."""
        fd = self._must(lib.tane_socket_fd(handle))
        polled = bytearray(struct.pack("=ihh", fd, _WRITE, 0))
        at = int(ffi.cast("uintptr_t", ffi.from_buffer(polled)))
        kernel = self._kernel._get()
        return self._must(lib.tane_syscall(kernel, _POLL, at, 1, 0, 0, 0, 0)) > 0

    def getsockname(self) -> Any:
        return self._name(lib.tane_getsockname)

    def getpeername(self) -> Any:
        return self._name(lib.tane_getpeername)

    def _name(self, call: Any) -> Any:
        name, size = ffi.new("char[]", _NAME), ffi.new("uint32_t *", _NAME)
        self._must(call(self._get(), name, size))
        return unpack(ffi.buffer(name, min(size[0], _NAME))[:])

    # ---- data ----

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        return self._receive(bufsize, flags)[0]

    def recvfrom(self, bufsize: int, flags: int = 0) -> tuple[bytes, Any]:
        name, size = ffi.new("char[]", _NAME), ffi.new("uint32_t *", _NAME)
        data, _ = self._receive(bufsize, flags, name, size)
        return data, unpack(ffi.buffer(name, min(size[0], _NAME))[:])

    def _receive(
        self, bufsize: int, flags: int, name: Any = ffi.NULL, size: Any = ffi.NULL
    ) -> tuple[bytes, int]:
        if bufsize < 0:
            raise ValueError("negative buffersize in recv")
        room = _memory("char[]", bufsize)
        n = self._do(
            _READ,
            lambda at: int(lib.tane_recvfrom(at, room, bufsize, flags, name, size)),
        )
        return ffi.buffer(room, min(n, bufsize))[:], n

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        return self._receive_into(buffer, nbytes, flags)

    def recvfrom_into(
        self, buffer: Any, nbytes: int = 0, flags: int = 0
    ) -> tuple[int, Any]:
        name, size = ffi.new("char[]", _NAME), ffi.new("uint32_t *", _NAME)
        n = self._receive_into(buffer, nbytes, flags, name, size)
        return n, unpack(ffi.buffer(name, min(size[0], _NAME))[:])

    def _receive_into(
        self,
        buffer: Any,
        nbytes: int,
        flags: int,
        name: Any = ffi.NULL,
        size: Any = ffi.NULL,
    ) -> int:
        room = ffi.from_buffer("char[]", buffer, require_writable=True)
        most = len(room)
        if not 0 <= nbytes <= most:
            raise ValueError("nbytes is negative, or greater than the length of buffer")
        count = nbytes or most
        return self._do(
            _READ,
            lambda at: int(lib.tane_recvfrom(at, room, count, flags, name, size)),
        )

    def send(self, data: Any, flags: int = 0) -> int:
        return self._send(ffi.from_buffer(data), 0, flags, self._until())

    def sendall(self, data: Any, flags: int = 0) -> None:
        """The time limit is that of all of it."""
        memory, until, done = ffi.from_buffer(data), self._until(), 0
        while done < len(memory):
            done += self._send(memory, done, flags, until)

    def _send(self, memory: Any, done: int, flags: int, until: float | None) -> int:
        size = len(memory) - done
        return self._do(
            _WRITE,
            lambda at: int(
                lib.tane_sendto(at, memory + done, size, flags, ffi.NULL, 0)
            ),
            until,
        )

    def sendto(self, data: Any, *args: Any) -> int:
        """sendto(data, address) or sendto(data, flags, address)"""
        flags, address = (0, *args) if len(args) == 1 else args
        name = pack(self._kernel, self.family, address)
        memory = ffi.from_buffer(data)
        size, length = len(memory), len(name)
        return self._do(
            _WRITE,
            lambda at: int(lib.tane_sendto(at, memory, size, flags, name, length)),
        )

    def sendmsg(
        self,
        buffers: Iterable[Any],
        ancdata: Iterable[Any] = (),
        flags: int = 0,
        address: Address | None = None,
    ) -> int:
        """Without ancillary data."""
        if list(ancdata):
            fail(errno.EOPNOTSUPP, None, "ancillary data")
        parts = [ffi.from_buffer(buffer) for buffer in buffers]
        # struct iovec, and struct msghdr.
        lists = ffi.new("uint64_t[]", max(1, 2 * len(parts)))
        for at, part in enumerate(parts):
            lists[2 * at] = int(ffi.cast("uintptr_t", part))
            lists[2 * at + 1] = len(part)
        head = ffi.new("uint64_t[7]")
        if address is not None:
            name = ffi.from_buffer(pack(self._kernel, self.family, address))
            head[0], head[1] = int(ffi.cast("uintptr_t", name)), len(name)
        head[2], head[3] = int(ffi.cast("uintptr_t", lists)), len(parts)
        return self._do(_WRITE, lambda at: int(lib.tane_sendmsg(at, head, flags)))

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """What is left of a file, or `count` bytes, by reading and sending."""
        if offset:
            file.seek(offset)
        done = 0
        while count is None or done < count:
            piece = file.read(65536 if count is None else min(65536, count - done))
            if not piece:
                break
            self.sendall(piece)
            done += len(piece)
        return done

    def shutdown(self, how: int) -> None:
        self._must(lib.tane_shutdown(self._get(), how))

    # ---- options ----

    def setsockopt(
        self, level: int, optname: int, value: Any, optlen: int | None = None
    ) -> None:
        if value is None:
            answer = lib.tane_setsockopt(
                self._get(), level, optname, ffi.NULL, optlen or 0
            )
        else:
            data = struct.pack("=i", value) if isinstance(value, int) else value
            memory = ffi.from_buffer(data)
            answer = lib.tane_setsockopt(
                self._get(), level, optname, memory, len(memory)
            )
        self._must(answer)

    def getsockopt(self, level: int, optname: int, buflen: int = 0) -> Any:
        """A number; with `buflen` as many bytes at most."""
        room, size = ffi.new("char[]", buflen or 4), ffi.new("uint32_t *", buflen or 4)
        self._must(lib.tane_getsockopt(self._get(), level, optname, room, size))
        data = ffi.buffer(room, min(size[0], buflen or 4))[:]
        return data if buflen else int.from_bytes(data, "little", signed=True)

    def mptcp_info(self) -> MptcpInfo:
        """Which paths a connection takes that was made with IPPROTO_MPTCP.

        OSError EOPNOTSUPP or ENOPROTOOPT: it is of another kind, or went on by TCP
        alone, as the other end has no MPTCP.
        """
        return asked(lambda *to: self._must(lib.tane_mptcp_info(self._get(), *to)))

    def set_inheritable(self, inheritable: bool) -> None:
        """Programs that the host starts get none of a kernel's."""
        if inheritable:
            fail(errno.EOPNOTSUPP, None, "a socket of a kernel's cannot be inherited")

    def get_inheritable(self) -> bool:
        return False

    # ---- files, and the end ----

    def makefile(
        self,
        mode: str = "r",
        buffering: int | None = None,
        *,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """As that of `socket.socket`: it stays open until these files are closed."""
        return _host.socket.makefile(
            self,
            mode,  # type: ignore[call-overload]
            buffering,
            encoding=encoding,
            errors=errors,
            newline=newline,
        )

    def _decref_socketios(self) -> None:
        if self._io_refs > 0:
            self._io_refs -= 1
        if self._closed and self._io_refs <= 0:
            self._handle = None

    def close(self) -> None:
        """Calls of other threads go on; `shutdown` ends them."""
        self._closed = True
        if self._io_refs <= 0:
            self._handle = None

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else "open"
        return f"<tane.socket.Socket {self.family.name} {self.type.name} {state}>"

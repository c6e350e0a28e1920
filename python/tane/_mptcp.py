# SPDX-License-Identifier: GPL-2.0-only
"""Connections over several paths: MPTCP, as `ip mptcp` sets it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._errors import fail, message
from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._kernel import Kernel
    from ._nic import Link

# The kernel has no more endpoints, and a connection no more paths.
_ENDPOINTS, _PATHS = 8, 9


@dataclass(frozen=True)
class Endpoint:
    """An address that connections may take."""

    id: int
    """The kernel's number for it, from 1."""
    address: str
    link: int | None
    """`Link.index` of the interface that it is bound to."""
    signal: bool
    subflow: bool
    backup: bool
    fullmesh: bool
    implicit: bool
    """The kernel found it by itself, of a path that the other end began."""


@dataclass(frozen=True)
class Subflow:
    """A path of a connection, which is a connection of TCP's."""

    id: int
    """No other path of this connection has or had it."""
    local: str
    """Here: "10.0.0.1:4000", "[fd00::1]:4000"."""
    remote: str
    """There."""
    rtt: float
    """The round trip's time, smoothed, in seconds."""
    min_rtt: float
    """The shortest one of late."""
    congestion_window: int
    """In segments."""
    retransmits: int
    """Segments that were sent again."""
    bytes_sent: int
    """Again ones included."""
    bytes_acked: int
    """That the other end has acknowledged."""
    bytes_received: int
    """That came and were new."""
    delivery_rate: int
    """How fast it was lately delivered, in bytes a second."""


@dataclass(frozen=True)
class MptcpInfo:
    """What MPTCP says of a connection at one time."""

    bytes_sent: int
    """Again ones included."""
    bytes_retransmitted: int
    """Of them those that were sent again by another path."""
    bytes_acked: int
    """That the other end has acknowledged."""
    bytes_received: int
    """That came and were new."""
    subflows: list[Subflow]
    """Its paths as they are now."""


class Mptcp:
    """Which addresses connections over several paths may take: `Network.mptcp`.

    Sockets of MPTCP are `Network.socket(proto=socket.IPPROTO_MPTCP)`; their
    `mptcp_info` says which paths they take. OSError EPROTONOSUPPORT, of all of its
    methods: the kernel's image has no MPTCP, as `default` has.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def _do(self, call: Callable[..., int], *args: Any) -> int:
        answer = call(self.kernel._get(), *args)
        if answer < 0:
            fail(-answer, None, message(), made=self.kernel._forks)
        return answer

    def add_endpoint(
        self,
        address: str,
        *,
        link: Link | None = None,
        signal: bool = False,
        subflow: bool = False,
        backup: bool = False,
        fullmesh: bool = False,
    ) -> None:
        """Have connections take an address, those that there are already, too.

        With `signal` the other end is told of it, and may begin further paths to it;
        with `subflow` connections begin further paths from it, with `fullmesh` to all
        addresses of the other end that are known; with `backup` these are taken while
        there are no others. What goes from there goes by the interface `link`, where
        there is a route by it (`Link.add_route`); else as the kernel's routes say.

        OSError EEXIST: it is there; ERANGE: there are 8; EINVAL: `address` is none, or
        `signal` and `fullmesh` are said.
        """
        bits = (
            lib.TANE_MPTCP_SIGNAL * signal
            | lib.TANE_MPTCP_SUBFLOW * subflow
            | lib.TANE_MPTCP_BACKUP * backup
            | lib.TANE_MPTCP_FULLMESH * fullmesh
        )
        name = ffi.NULL if link is None else link.name.encode() + b"\0"
        self._do(lib.tane_mptcp_add_endpoint, name, address.encode() + b"\0", bits)

    def remove_endpoint(self, id: int) -> None:
        """Have connections take it no longer; paths that do end.

        OSError EINVAL: there is none of this number.
        """
        self._do(lib.tane_mptcp_remove_endpoint, id)

    def clear(self) -> None:
        """Remove all of them."""
        self._do(lib.tane_mptcp_clear)

    def endpoints(self) -> list[Endpoint]:
        """All there are, by their numbers."""
        found = ffi.new("struct tane_mptcp_endpoint[]", _ENDPOINTS)
        count = self._do(lib.tane_mptcp_endpoints, found, _ENDPOINTS)
        return [
            Endpoint(
                id=raw.id,
                address=_text(raw.address),
                link=raw.link or None,
                signal=bool(raw.flags & lib.TANE_MPTCP_SIGNAL),
                subflow=bool(raw.flags & lib.TANE_MPTCP_SUBFLOW),
                backup=bool(raw.flags & lib.TANE_MPTCP_BACKUP),
                fullmesh=bool(raw.flags & lib.TANE_MPTCP_FULLMESH),
                implicit=bool(raw.flags & lib.TANE_MPTCP_IMPLICIT),
            )
            for raw in found[0:count]
        ]

    def limits(self) -> tuple[int, int]:
        """How many paths a connection may have beside the first one (2 in a new
        kernel), and of them to addresses of which the other end tells (0)."""
        found = ffi.new("uint32_t[2]")
        self._do(lib.tane_mptcp_limits, found, found + 1)
        return found[0], found[1]

    def set_limits(self, subflows: int, accepted: int) -> None:
        """Let connections have so many. OSError EINVAL: more than 8."""
        self._do(lib.tane_mptcp_set_limits, subflows, accepted)

    def __repr__(self) -> str:
        return f"<tane.Mptcp of {self.kernel!r}>"


def _text(field: Any) -> str:
    return str(ffi.string(field).decode())


def asked(ask: Callable[[Any, Any, int], int]) -> MptcpInfo:
    """What a socket says."""
    info = ffi.new("struct tane_mptcp_info *")
    info.size = ffi.sizeof("struct tane_mptcp_info")
    paths = ffi.new("struct tane_mptcp_path[]", _PATHS)
    count = ask(info, paths, _PATHS)
    return MptcpInfo(
        bytes_sent=info.bytes_sent,
        bytes_retransmitted=info.bytes_retransmitted,
        bytes_acked=info.bytes_acked,
        bytes_received=info.bytes_received,
        subflows=[
            Subflow(
                id=raw.id,
                local=_text(raw.local),
                remote=_text(raw.remote),
                rtt=raw.rtt / 1e6,
                min_rtt=raw.min_rtt / 1e6,
                congestion_window=raw.congestion_window,
                retransmits=raw.retransmits,
                bytes_sent=raw.bytes_sent,
                bytes_acked=raw.bytes_acked,
                bytes_received=raw.bytes_received,
                delivery_rate=raw.delivery_rate,
            )
            for raw in paths[0:count]
        ],
    )

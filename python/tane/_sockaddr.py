# SPDX-License-Identifier: GPL-2.0-only
"""Addresses of sockets, as Linux has them and as Python has."""

from __future__ import annotations

import socket as _host
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from ._kernel import Kernel

Address: TypeAlias = "tuple[Any, ...] | str | bytes"


def pack(kernel: Kernel, family: int, address: Address) -> bytes:
    """An address as Linux has it. Names are looked up in the kernel's network."""
    if family == _host.AF_UNIX:
        path = address.encode() if isinstance(address, str) else raw(address)
        end = b"" if path[:1] == b"\0" else b"\0"
        return struct.pack("=H", family) + path + end
    if family not in (_host.AF_INET, _host.AF_INET6):
        return raw(address)
    if not isinstance(address, tuple):
        raise TypeError(f"an address is a tuple (host, port), not {address!r}")
    host, port, *rest = address
    if not 0 <= port <= 65535:
        raise OverflowError("port must be 0-65535.")
    ip = numeric(kernel, family, host)
    head = struct.pack("=H", family) + struct.pack(">H", port)
    if family == _host.AF_INET:
        return head + _host.inet_pton(family, ip) + bytes(8)
    flow, scope = (*rest, 0, 0)[:2]
    tail = _host.inet_pton(family, ip) + struct.pack("=I", scope)
    return head + struct.pack(">I", flow) + tail


def raw(address: Address) -> bytes:
    """As the caller has packed it."""
    if not isinstance(address, bytes):
        raise TypeError(f"an address of this family is bytes, not {address!r}")
    return address


def numeric(kernel: Kernel, family: int, host: str) -> str:
    """The first address of this family that a host has."""
    is_6 = family == _host.AF_INET6
    if host == "":
        return "::" if is_6 else "0.0.0.0"
    if host == "<broadcast>":
        return "255.255.255.255"
    found = [ip for ip in kernel.network.lookup(host) if (":" in ip) == is_6]
    if not found:
        kind = "IPv6" if is_6 else "IPv4"
        text = f"{host} has no address of {kind}"
        raise _host.gaierror(_host.EAI_ADDRFAMILY, text)
    return found[0]


def unpack(name: bytes) -> Any:
    """What Python has for an address of Linux's."""
    if len(name) < 2:
        return None
    (family,) = struct.unpack("=H", name[:2])
    if family == _host.AF_INET:
        (port,) = struct.unpack(">H", name[2:4])
        return _host.inet_ntop(family, name[4:8]), port
    if family == _host.AF_INET6:
        port, flow = struct.unpack(">HI", name[2:8])
        (scope,) = struct.unpack("=I", name[24:28])
        return _host.inet_ntop(family, name[8:24]), port, flow, scope
    if family == _host.AF_UNIX:
        path = name[2:]
        return (
            path if path[:1] == b"\0" else path.rstrip(b"\0").decode(errors="replace")
        )
    return name

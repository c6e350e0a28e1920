# SPDX-License-Identifier: GPL-2.0-only
"""What a kernel reaches networks by: cards, and the host's network."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ._closing import Closing
from ._errors import fail, message
from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._kernel import Kernel


class Link:
    """An interface of a kernel's, by its name: "lo", "eth0"."""

    def __init__(self, kernel: Kernel, name: str) -> None:
        self.kernel = kernel
        self.name = name

    def _do(self, call: Any, *args: Any) -> int:
        name = self.name.encode() + b"\0"
        answer = call(self.kernel._get(), name, *args)
        if answer < 0:
            fail(-answer, None, message(), made=self.kernel._forks)
        return int(answer)

    def up(self) -> None:
        """Have it send and receive."""
        self._do(lib.tane_link_up)

    def down(self) -> None:
        """Have it send and receive nothing."""
        self._do(lib.tane_link_down)

    def set_mtu(self, mtu: int) -> None:
        """The largest IP packet, in bytes; at most what its card was made with."""
        self._do(lib.tane_link_mtu, mtu)

    @property
    def is_running(self) -> bool:
        """Whether it is up and somebody is at the other end."""
        return self._do(lib.tane_link_is_running) == 1

    @property
    def index(self) -> int:
        """The kernel's number for it."""
        return self._do(lib.tane_link_index)

    def add_address(self, address: str) -> None:
        """Such as "10.0.0.2/24" or "fd00::2/64"."""
        self._do(lib.tane_link_add_address, address.encode() + b"\0")

    def remove_address(self, address: str) -> None:
        """One that it has."""
        self._do(lib.tane_link_remove_address, address.encode() + b"\0")

    def add_route(self, network: str, gateway: str, metric: int) -> None:
        """Send what is for `network` to `gateway` by this interface, as far as no way
        with a smaller `metric` serves, as those of `Network.add_route` have (0). What
        is bound to the interface takes it in any case."""
        words = (text.encode() + b"\0" for text in (network, gateway))
        self._do(lib.tane_link_add_route, *words, metric)

    def impair(self, how: str | None) -> None:
        """Have what it sends be late, lost, cut to a rate and so on, as tc-netem(8):
        "delay=100ms,jitter=5ms,loss=1%,duplicate=1%,corrupt=1%,rate=2mbit,limit=1000,
        seed=7", or some of these. None: as it is again."""
        text = ffi.NULL if how is None else how.encode() + b"\0"
        self._do(lib.tane_link_impair, text)

    def __repr__(self) -> str:
        return f"<tane.{type(self).__name__} {self.name}>"


class Nic(Link, Closing):
    """A network interface of a kernel's that is there until it is closed."""

    def __init__(self, kernel: Kernel, handle: Any) -> None:
        self._handle = ffi.gc(handle, lib.tane_nic_close)
        name = ffi.string(lib.tane_nic_interface(handle)).decode()
        super().__init__(kernel, name)
        kernel._images.add(self)

    def _get(self) -> Any:
        if self._handle is None:
            raise ValueError("the interface is closed")
        return self._handle

    @property
    def ports(self) -> list[int]:
        """The host's ports that lead inside, in the order of `forwards`."""
        found: list[int] = []
        while (port := lib.tane_nic_port(self._get(), len(found))) > 0:
            found.append(port)
        return found

    def flush(self) -> None:
        """Write what the capture has in its buffer."""
        answer = lib.tane_nic_flush(self._get())
        if answer < 0:
            fail(-answer, None, message(), made=self.kernel._forks)

    def close(self) -> None:
        """Take it away, and what goes through it. Twice does nothing."""
        self._handle = None


def options(
    mtu: int | None,
    mac: bytes | None,
    capture: str | os.PathLike[str] | None,
    plain: bool,
) -> tuple[Any, list[Any]]:
    """Of a card, and what is to be kept until it is made."""
    given = ffi.new("struct tane_nic_options *")
    given.size = ffi.sizeof("struct tane_nic_options")
    given.flags = lib.TANE_NIC_PLAIN if plain else 0
    given.mtu = mtu or 0
    keep = []
    if mac is not None:
        if len(mac) != 6:
            raise ValueError("an Ethernet address has six bytes")
        keep.append(ffi.new("uint8_t[]", mac))
        given.mac = keep[-1]
    if capture is not None:
        keep.append(ffi.new("char[]", os.fsencode(capture)))
        given.capture = keep[-1]
    return given, keep


def lists(values: Iterable[str] | None, keep: list[Any]) -> Any:
    """As C has one, or NULL."""
    if values is None:
        return ffi.NULL
    if isinstance(values, str):
        raise TypeError("a list of texts, not one text")
    texts = [ffi.new("char[]", value.encode()) for value in values]
    keep.append(texts)
    if not texts:
        return ffi.NULL
    keep.append(ffi.new("char *[]", [*texts, ffi.NULL]))
    return keep[-1]

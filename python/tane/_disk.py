# SPDX-License-Identifier: GPL-2.0-only
"""Disks of memory."""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Any, Literal

from ._closing import Closing, closed_first
from ._errors import fail, forks, message
from ._mount import Mount, mount_options
from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._kernel import Kernel

_OPEN, _FSYNC, _CLOSE, _PREAD, _PWRITE = 2, 74, 3, 17, 18


class RamDisk(Closing):
    """A disk of memory, all zeroes, for a kernel of this process.

    It takes memory where it is written first, so that `size` may be more than there
    is; what has no room is an I/O error. All of it is given back by `close()`.
    """

    mode: Literal["rw"] = "rw"
    worker: int | None = None
    """None: its Linux runs in this process."""

    def __init__(self, kernel: Kernel, size: int) -> None:
        self._forks = forks()
        self._mounts: weakref.WeakSet[Mount] = weakref.WeakSet()
        self._handle: Any = None
        self.kernel = kernel
        to = ffi.new("struct tane_disk **")
        answer = lib.tane_disk_ram(kernel._get(), size, ffi.NULL, to)
        if answer < 0:
            fail(-answer, None, message(), made=kernel._forks)
        self._handle = ffi.gc(to[0], lib.tane_disk_close)
        kernel._images.add(self)
        self.size = size
        self.path: str = ffi.string(lib.tane_disk_device(self._handle)).decode()
        """Its device inside the kernel, such as /dev/vda."""

    def _get(self) -> Any:
        if self._handle is None:
            raise ValueError("the disk is closed")
        return self._handle

    def _transfer(self, number: int, buffer: Any, offset: int) -> None:
        self._get()
        # O_RDWR | O_CLOEXEC
        fd = self.kernel.syscall(_OPEN, os.fsencode(self.path) + b"\0", 0o2000002, 0)
        try:
            with memoryview(buffer).cast("B") as rest:
                done = 0
                while done < len(rest):
                    some = rest[done:]
                    moved = self.kernel.syscall(
                        number, fd, some, len(some), offset + done
                    )
                    if not moved:
                        raise ValueError("behind the end of the disk")
                    done += moved
            if number == _PWRITE:
                self.kernel.syscall(_FSYNC, fd)
        finally:
            self.kernel.syscall(_CLOSE, fd)

    def read(self, length: int, offset: int) -> bytes:
        """Bytes of it, for what is not mounted."""
        buffer = bytearray(length)
        self._transfer(_PREAD, buffer, offset)
        return bytes(buffer)

    def write(self, data: Any, offset: int) -> None:
        """Put bytes there: an image, or what a mkfs made."""
        self._transfer(_PWRITE, data, offset)

    def mount(self, *, fstype: str | None = None, options: str = "") -> Mount:
        """The files of the file system on it; fstype and options as of mount(8)."""
        self._get()
        raw, _keep = mount_options(fstype, options)
        to = ffi.new("struct tane_mount **")
        answer = lib.tane_mount(self.kernel._get(), self.path.encode(), raw, to)
        if answer < 0:
            fail(-answer, self.path, message(), made=self._forks)
        mount = Mount(to[0], self, None)
        self._mounts.add(mount)
        return mount

    def close(self) -> None:
        """Unmount what was mounted, and give its memory back. Twice does nothing."""
        with closed_first(self._mounts):
            self._handle = None

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else self.path
        return f"<tane.RamDisk of {self.size} bytes, {state}>"

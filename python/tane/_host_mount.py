# SPDX-License-Identifier: GPL-2.0-only
"""Mounts that the host's programs see."""

from __future__ import annotations

import atexit
import errno
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from ._closing import Closing
from ._errors import fail, forks, message
from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._mount import Mount

# Those of this process, which are not left behind when it ends.
_all: weakref.WeakSet[HostMount] = weakref.WeakSet()

# Between two looks for signals, in milliseconds.
_REST = 100


class HostMount(Closing):
    """A mount at a directory of the host, for all programs; of `Mount.host_mount`.

    Threads of this process answer for it, which do not need the interpreter's lock; it
    ends with the process. Close it, or leave its context, to unmount it.
    """

    def __init__(
        self,
        mount: Mount,
        point: str,
        directory: str,
        source: str | None,
        allow_other: bool,
        xattrs_if_any: bool,
    ) -> None:
        self._handle: Any = None
        self._forks = forks()
        options = ffi.new("struct tane_host_mount_options *")
        options.size = ffi.sizeof("struct tane_host_mount_options")
        flags = (
            (allow_other, lib.TANE_HOST_MOUNT_ALLOW_OTHER),
            (xattrs_if_any, lib.TANE_HOST_MOUNT_XATTRS_IF_ANY),
        )
        options.flags = sum(flag for wanted, flag in flags if wanted)
        names = [os.fsencode(point), os.fsencode(directory)]
        if any(b"\0" in name for name in names):
            raise ValueError("embedded null byte")
        keep = [ffi.new("char[]", name) for name in names]
        options.directory = keep[1]
        if source is not None:
            keep.append(ffi.new("char[]", source.encode()))
            options.source = keep[2]
        to = ffi.new("struct tane_host_mount **")
        answer = lib.tane_host_mount(mount._get(), keep[0], options, to)
        if answer < 0:
            fail(-answer, point, message(), made=mount._forks)
        self._handle = ffi.gc(to[0], lib.tane_host_mount_close)
        self.point = os.fsdecode(ffi.string(lib.tane_host_mount_point(to[0])))
        """The directory of the host, under its full name."""
        _all.add(self)

    def _get(self) -> Any:
        handle = self._handle
        if handle is None:
            raise ValueError("it is not mounted any more")
        return handle

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until somebody has unmounted it (umount(8), `tane umount`), for so many
        seconds; whether that is so. A signal's handler may end it by raising.

        OSError: it could not be served to the end.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _REST
            if end is not None:
                left = min(left, max(0, int((end - time.monotonic()) * 1000)))
            answer = lib.tane_host_wait(self._get(), left)
            if answer == 0:
                return True
            if answer != -errno.ETIMEDOUT:
                fail(-answer, self.point, message(), made=self._forks)
            if end is not None and time.monotonic() >= end:
                return False

    def close(self) -> None:
        """Unmount it: what the host's programs wrote has come to the mount then, and
        closing that brings it into the image. Twice does nothing.

        OSError: EBUSY if something in it is open, or somebody's working directory. It
        is there as before then, until it is closed again or this process ends.
        """
        if self._handle is None:
            return
        if self._forks == forks():
            answer = lib.tane_host_unmount(self._handle)
            if answer < 0:
                fail(-answer, self.point, message(), made=self._forks)
        self._handle = None

    unmount = close

    def __repr__(self) -> str:
        state = "" if self._handle is not None else ", unmounted"
        return f"<tane.HostMount at {self.point!r}{state}>"


@atexit.register
def _close_all() -> None:
    for shown in list(_all):
        try:
            shown.close()
        except OSError as error:
            print(f"{shown.point}: {error.strerror}: gone from view", file=sys.stderr)
            # From there when the last one who uses it does not any more, or this ends.
            shown._handle = None

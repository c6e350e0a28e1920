# SPDX-License-Identifier: GPL-2.0-only
"""Extended attributes, as `os` has the host's."""

from __future__ import annotations

import errno
import os
from typing import Any

from ._calls import Calls, Name, nofollow
from ._tane import ffi, lib


class Xattrs(Calls):
    """What a mount has for them."""

    def getxattr(self, path: Name, name: str, *, follow_symlinks: bool = True) -> bytes:
        """OSError ENODATA: there is no such attribute."""
        key, flags = os.fsencode(name), nofollow(path, follow_symlinks)
        return self._grow(lib.tane_getxattr, path, (key,), flags)

    def listxattr(self, path: Name, *, follow_symlinks: bool = True) -> list[str]:
        flags = nofollow(path, follow_symlinks)
        names = self._grow(lib.tane_listxattr, path, (), flags).split(b"\0")
        return [os.fsdecode(name) for name in names if name]

    def _grow(
        self, call: Any, path: Name, before: tuple[Any, ...], flags: int
    ) -> bytes:
        for size in (512, 1 << 16):
            to = ffi.new("char[]", size)
            try:
                length = self._do(call, path, *before, to, size, flags)
            except OSError as error:
                if error.errno == errno.ERANGE and size == 512:
                    continue
                raise
            return bytes(ffi.unpack(to, length))
        raise AssertionError("Linux has no larger ones")

    def setxattr(
        self,
        path: Name,
        name: str,
        value: bytes,
        flags: int = 0,
        *,
        follow_symlinks: bool = True,
    ) -> None:
        """flags: os.XATTR_CREATE or os.XATTR_REPLACE."""
        follow = nofollow(path, follow_symlinks)
        key = os.fsencode(name)
        self._do(lib.tane_setxattr, path, key, value, len(value), flags, follow)

    def removexattr(
        self, path: Name, name: str, *, follow_symlinks: bool = True
    ) -> None:
        flags = nofollow(path, follow_symlinks)
        self._do(lib.tane_removexattr, path, os.fsencode(name), flags)

# SPDX-License-Identifier: GPL-2.0-only
"""What chattr(1) sets, in copies: the flags of an inode, and its project."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Protocol

# linux/fs.h
_GETFLAGS = 0x8008_6601
_SETFLAGS = 0x4008_6602
_FSGETXATTR = 0x801C_581F
_FSSETXATTR = 0x401C_5820
# struct fsxattr: flags, two hints, the project, one more, and room.
_FSXATTR = struct.Struct("=IIIII8x")
_PROJECT = 3

# Those that somebody may set, by lsattr's letters. The others say how a file system
# stores the file, which is its own affair.
_LETTERS = {
    0x1: "s",
    0x2: "u",
    0x4: "c",
    0x8: "S",
    0x10: "i",
    0x20: "a",
    0x40: "d",
    0x80: "A",
    0x4000: "j",
    0x8000: "t",
    0x1_0000: "D",
    0x2_0000: "T",
    0x80_0000: "C",
    0x200_0000: "x",
    0x2000_0000: "P",
    0x4000_0000: "F",
}
_NONE = {errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL}


class Flagged(Protocol):
    """An open file."""

    def flags(self) -> tuple[int, int]: ...
    def set_flags(self, flags: int) -> None: ...
    def set_project(self, project: int) -> None: ...


class HostFlags:
    """The same calls for a descriptor of the host."""

    fd: int

    def flags(self) -> tuple[int, int]:
        # The kernel writes an int, whatever the number of the call says.
        answer = fcntl.ioctl(self.fd, _GETFLAGS, bytes(8))
        try:
            more = fcntl.ioctl(self.fd, _FSGETXATTR, bytes(_FSXATTR.size))
        except OSError:
            more = bytes(_FSXATTR.size)
        return int.from_bytes(answer[:4], "little"), _FSXATTR.unpack(more)[_PROJECT]

    def set_flags(self, flags: int) -> None:
        fcntl.ioctl(self.fd, _SETFLAGS, flags.to_bytes(8, "little"))

    def set_project(self, project: int) -> None:
        more = fcntl.ioctl(self.fd, _FSGETXATTR, bytes(_FSXATTR.size))
        fields = list(_FSXATTR.unpack(more))
        fields[_PROJECT] = project
        fcntl.ioctl(self.fd, _FSSETXATTR, _FSXATTR.pack(*fields))


def of(file: Flagged) -> tuple[int, int]:
    """Those that a copy keeps, and the project; (0, 0) where there are none."""
    try:
        flags, project = file.flags()
    except OSError as error:
        if error.errno in _NONE:
            return 0, 0
        raise
    return sum(bit for bit in _LETTERS if flags & bit), project


def add(file: Flagged, flags: int) -> None:
    """OSError unless the file has all of them then."""
    now, _ = file.flags()
    if now & flags != flags:
        file.set_flags(now | flags)
        now, _ = file.flags()
    if now & flags != flags:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def letters(flags: int) -> str:
    """As lsattr(1) shows them."""
    return "".join(letter for bit, letter in _LETTERS.items() if flags & bit)

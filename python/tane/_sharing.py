# SPDX-License-Identifier: GPL-2.0-only
"""What files of one file system have in common, and copies elsewhere do not: blocks
(reflinks), and subvolumes of btrfs."""

from __future__ import annotations

import errno
import fcntl
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

# linux/btrfs_tree.h, linux/magic.h: the inode number of a subvolume's root.
SUBVOLUME = 256
BTRFS = 0x9123_683E

# linux/btrfs.h
_SUBVOL_GETFLAGS = 0x8008_9419

# linux/fiemap.h
_FIEMAP = 0xC020_660B
_LAST = 0x1
_SHARED = 0x2000
# Unknown, not written yet, in the inode, never written.
_NOWHERE = 0x2 | 0x4 | 0x200 | 0x800
# struct fiemap and struct fiemap_extent.
_HEAD = struct.Struct("=QQIIII")
_PART = struct.Struct("=QQQ16xI12x")
_PARTS = 128
_END = (1 << 64) - 1


class HostBlocks:
    """For a descriptor of the host: what RawFile tells."""

    fd: int

    def shared_parts(self) -> Iterator[tuple[int, int, int]]:
        at = 0
        while True:
            room = bytearray(_HEAD.size + _PARTS * _PART.size)
            _HEAD.pack_into(room, 0, at, _END - at, 0, 0, _PARTS, 0)
            fcntl.ioctl(self.fd, _FIEMAP, room)
            found = min(_HEAD.unpack_from(room)[3], _PARTS)
            before = at
            for i in range(found):
                where = _PART.unpack_from(room, _HEAD.size + i * _PART.size)
                start, physical, length, flags = where
                if flags & (_SHARED | _NOWHERE) == _SHARED:
                    yield start, length, physical
                at = _END if flags & _LAST else start + length
            if not before < at < _END:
                return

    def place(self) -> int:
        """The mount it is in: btrfs has a device number for each subvolume."""
        with open(f"/proc/self/fdinfo/{self.fd}", encoding="ascii") as info:
            lines = dict(line.split(":", 1) for line in info if ":" in line)
        return int(lines["mnt_id"])

    def is_subvolume(self) -> bool:
        try:
            fcntl.ioctl(self.fd, _SUBVOL_GETFLAGS, bytes(8))
        except OSError as error:
            if error.errno in (errno.ENOTTY, errno.EINVAL, errno.EOPNOTSUPP):
                return False
            raise
        return True


class Blocks:
    """Those that the files of a copy have had so far."""

    def __init__(self) -> None:
        # By place: where runs of them begin and end, in order and apart.
        self.runs: dict[int, tuple[list[int], list[int]]] = {}

    def add(self, place: int, start: int, length: int) -> bool:
        """Whether some of these were there already."""
        starts, ends = self.runs.setdefault(place, ([], []))
        end = start + length
        first, last = bisect_right(ends, start), bisect_left(starts, end)
        known = first < last
        if known:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last], ends[first:last] = [start], [end]
        return known

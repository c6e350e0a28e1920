# SPDX-License-Identifier: GPL-2.0-only
"""Directories: their entries, and what is below them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._closing import Closing
from ._errors import fail
from ._stat import STAT_SIZE, stat_result
from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._mount import Mount


_DIRECTORY = stat.S_IFDIR >> 12
# For names that come with one call, in bytes.
_ROOM = 1 << 16


class DirEntry:
    """What scandir() gives: like os.DirEntry. Its type is known without a call."""

    __slots__ = ("_ino", "_lstat", "_mount", "_stat", "_type", "name", "path")

    def __init__(self, mount: Mount, path: str, name: str, ino: int, type: int) -> None:
        self._mount = mount
        self.name = name
        self.path = path
        self._ino = ino
        # S_IFMT bits; 0 if the directory does not say.
        self._type = type
        self._stat: os.stat_result | None = None
        self._lstat: os.stat_result | None = None

    def inode(self) -> int:
        return self._ino

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Asked for once, then remembered."""
        if follow_symlinks and self.is_symlink():
            if self._stat is None:
                self._stat = self._mount.stat(self.path)
            return self._stat
        if self._lstat is None:
            self._lstat = self._mount.stat(self.path, follow_symlinks=False)
        return self._lstat

    def _kind(self, follow_symlinks: bool) -> int:
        if self._type == 0:
            mode = self._mount.stat(self.path, follow_symlinks=False).st_mode
            self._type = stat.S_IFMT(mode)
        if follow_symlinks and self._type == stat.S_IFLNK:
            try:
                return stat.S_IFMT(self.stat().st_mode)
            except FileNotFoundError:
                return 0
        return self._type

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind(follow_symlinks) == stat.S_IFDIR

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind(follow_symlinks) == stat.S_IFREG

    def is_symlink(self) -> bool:
        return self._kind(False) == stat.S_IFLNK

    def __repr__(self) -> str:
        return f"<tane.DirEntry {self.name!r}>"


class ScanDir(Closing):
    """The iterator and context manager that scandir() gives."""

    def __init__(self, mount: Mount, path: str, flags: int = 0) -> None:
        to = ffi.new("struct tane_dir **")
        answer = lib.tane_list(mount._get(), mount._name(path), flags, to)
        if answer < 0:
            fail(-answer, path, made=mount._forks)
        self._handle: Any = ffi.gc(to[0], lib.tane_closedir)
        self._mount = mount
        self._path = path
        self._room: Any = None
        self._stats: Any = None
        if flags & lib.TANE_LIST_STAT:
            self._stats = ffi.new("struct tane_stat *", {"size": STAT_SIZE})
        self._base = path if path.endswith("/") else path + "/"
        size = ffi.sizeof("struct tane_dirent")
        self._entry = ffi.new("struct tane_dirent *", {"size": size})

    def __iter__(self) -> ScanDir:
        return self

    def _read(self) -> int:
        answer = lib.tane_readdir(self._handle, self._entry)
        if answer < 0:
            self.close()
            fail(-answer, self._path, made=self._mount._forks)
        return int(answer)

    def _follow(self) -> bool:
        """Into the next directory of a walk, when all names of one have been read."""
        if self._read() == 0:
            return False
        self._path = os.fsdecode(ffi.string(lib.tane_dir_path(self._handle)))
        return True

    def __next__(self) -> DirEntry:
        if self._handle is None:
            raise StopIteration
        entry = self._entry
        if self._read() == 0:
            self.close()
            raise StopIteration
        name = os.fsdecode(ffi.unpack(entry.name, entry.name_len))
        found = DirEntry(self._mount, self._base + name, name, entry.ino, entry.type)
        stats = self._stats
        if stats is not None and lib.tane_entry_stat(self._handle, stats) == 0:
            found._lstat = stat_result(stats)
        return found

    def _names(self) -> tuple[list[str], bytes]:
        """The names that are left in this directory, and their types: S_IFMT >> 12."""
        names: list[str] = []
        types = b""
        if self._room is None:
            # A name takes two bytes at least.
            kinds = ffi.new("unsigned char[]", _ROOM // 2)
            self._room = ffi.new("char[]", _ROOM), kinds
        room, kinds = self._room
        while True:
            length = lib.tane_read_names(self._handle, room, _ROOM, kinds)
            if length < 0:
                self.close()
                fail(-length, self._path, made=self._mount._forks)
            if length == 0:
                return names, types
            some = os.fsdecode(ffi.unpack(room, length - 1)).split("\0")
            names += some
            types += ffi.buffer(kinds, len(some))[:]

    def close(self) -> None:
        self._handle = None


class _Below:
    """What is left out of a walk that has the rest of it coming."""

    def __init__(self) -> None:
        self._prefix: str | None = None

    def leave_out(self, path: str) -> None:
        self._prefix = path if path.endswith("/") else path + "/"

    def has(self, path: str) -> bool:
        # All that is below a directory comes before its neighbours.
        return self._prefix is None or not path.startswith(self._prefix)


def walk_at_once(mount: Mount, top: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """As Mount.walk(), top down, of what nobody changes: all of it in one go."""
    below = _Below()
    with ScanDir(mount, top, lib.TANE_LIST_WALK) as entries:
        goes_on = True
        while goes_on:
            path = entries._path
            files, types = entries._names()
            dirs: list[str] = []
            if _DIRECTORY in types:
                both = list(zip(files, types, strict=True))
                dirs = [name for name, kind in both if kind == _DIRECTORY]
                files = [name for name, kind in both if kind != _DIRECTORY]
            goes_on = entries._follow()
            if not below.has(path):
                continue
            known = dirs.copy()
            yield path, dirs, files
            if dirs != known:
                # The caller has another order, or other directories, in mind.
                below.leave_out(path)
                base = path if path.endswith("/") else path + "/"
                for name in dirs:
                    yield from mount.walk(base + name)

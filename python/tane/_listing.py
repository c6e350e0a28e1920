# SPDX-License-Identifier: GPL-2.0-only
"""Directories: their entries, and what is below them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ._errors import fail
from ._stat import STAT_SIZE, stat_result
from ._tane import ffi, lib

if TYPE_CHECKING:
    from types import TracebackType

    from ._mount import Mount


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


class ScanDir:
    """The iterator and context manager that scandir() gives."""

    def __init__(self, mount: Mount, path: str, flags: int = 0) -> None:
        to = ffi.new("struct tane_dir **")
        answer = lib.tane_list(mount._get(), mount._name(path), flags, to)
        if answer < 0:
            fail(-answer, path, made=mount._forks)
        self._handle: Any = ffi.gc(to[0], lib.tane_closedir)
        self._mount = mount
        self._path = path
        self._stats: Any = None
        if flags & lib.TANE_LIST_STAT:
            self._stats = ffi.new("struct tane_stat *", {"size": STAT_SIZE})
        self._base = path if path.endswith("/") else path + "/"
        size = ffi.sizeof("struct tane_dirent")
        self._entry = ffi.new("struct tane_dirent *", {"size": size})

    def __iter__(self) -> ScanDir:
        return self

    def __next__(self) -> DirEntry:
        found = self._next()
        assert found is not None, "no walk"
        return found

    def _next(self) -> DirEntry | None:
        handle, entry = self._handle, self._entry
        if handle is None:
            raise StopIteration
        answer = lib.tane_readdir(handle, entry)
        if answer < 0:
            self.close()
            fail(-answer, self._path, made=self._mount._forks)
        if answer == 0:
            self.close()
            raise StopIteration
        if answer == 2:
            # A walk goes on, in this directory.
            self._path = os.fsdecode(ffi.string(lib.tane_dir_path(handle)))
            self._base = self._path + "/"
            return None
        name = os.fsdecode(ffi.unpack(entry.name, entry.name_len))
        found = DirEntry(self._mount, self._base + name, name, entry.ino, entry.type)
        if self._stats is not None and lib.tane_entry_stat(handle, self._stats) == 0:
            found._lstat = stat_result(self._stats)
        return found

    def close(self) -> None:
        self._handle = None

    def __enter__(self) -> ScanDir:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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
        over = False
        while not over:
            path = entries._path
            dirs: list[str] = []
            files: list[str] = []
            while True:
                try:
                    entry = entries._next()
                except StopIteration:
                    over = True
                    break
                if entry is None:
                    break
                kind = dirs if entry._type == stat.S_IFDIR else files
                kind.append(entry.name)
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

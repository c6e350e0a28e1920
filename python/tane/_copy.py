# SPDX-License-Identifier: GPL-2.0-only
"""Copies between a mount and the host.

Both sides are seen through the same few calls, so that one walk serves both ways.
"""

from __future__ import annotations

import errno
import operator
import os
import stat
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from . import _flags
from ._sharing import Blocks
from ._sides import HostSide, ImageSide, Side

if TYPE_CHECKING:
    from ._mount import Mount

Progress: TypeAlias = Callable[[int, int], object]

_CHUNK = 1 << 20

# What says that a file system or a user cannot, rather than that something broke.
_REFUSALS = {
    *(errno.EPERM, errno.EACCES, errno.EOPNOTSUPP),
    *(errno.EINVAL, errno.ENOSYS, errno.ENOTTY),
}


class LossWarning(UserWarning):
    """A copy left something behind."""


class LossError(OSError):
    """A strict copy ended where it would have left something behind."""


class Bar(Protocol):
    """What is needed of tqdm.tqdm."""

    n: Any
    total: Any

    def update(self, n: Any = ...) -> Any: ...
    def refresh(self) -> Any: ...


def drive(bar: Bar) -> Progress:
    """A callback that moves a bar of tqdm.

    >>> with tqdm(unit="B", unit_scale=True) as bar:
    ...     mount.copy_out("/var/log", "log", callback=tane.drive(bar))
    """

    def move(done: int, total: int) -> None:
        if bar.total != total:
            bar.total = total
            bar.refresh()
        bar.update(done - bar.n)

    return move


class _Copy:
    """One copy of a file or tree."""

    def __init__(
        self,
        source: Side,
        to: Side,
        owners: bool,
        callback: Progress | None,
        strict: bool,
    ) -> None:
        self.source = source
        self.to = to
        self.owners = owners
        self.callback = callback
        self.strict = strict
        self.done = 0
        self.total = 0
        self.room = memoryview(bytearray(_CHUNK))
        # What is told of one file for all.
        self.told: set[str] = set()
        # Where files with several names went.
        self.seen: dict[tuple[int, int], str] = {}
        self.blocks = Blocks()
        # Flags and projects forbid further names and entries: they come last of all.
        self.flags: list[tuple[str, int, int]] = []

    def run(self) -> None:
        if self.callback is not None:
            self.total = self._measure("")
            self.callback(0, self.total)
        self._entry("")
        for path, flags, project in self.flags:
            self._add_flags(path, flags, project)

    def _measure(self, path: str) -> int:
        found = self.source.lstat(path)
        if stat.S_ISREG(found.st_mode):
            return found.st_size
        if not stat.S_ISDIR(found.st_mode):
            return 0
        below = (f"{path}/{n}" if path else n for n in self.source.listdir(path))
        return sum(self._measure(p) for p in below)

    def _advance(self, n: int) -> None:
        self.done += n
        if self.callback is not None:
            self.callback(self.done, max(self.done, self.total))

    def _entry(self, path: str) -> None:
        found = self.source.lstat(path)
        mode = found.st_mode
        if stat.S_ISDIR(mode):
            self._directory(path, found)
        else:
            self._clear(path)
            key = (found.st_dev, found.st_ino)
            if found.st_nlink > 1 and key in self.seen:
                self.to.link(self.seen[key], path)
                self._advance(found.st_size if stat.S_ISREG(mode) else 0)
                return
            if not self._make(path, found):
                return
            self.seen[key] = path
        self._finish(path, found)

    def _clear(self, path: str) -> None:
        try:
            there = self.to.lstat(path)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(
                errno.EISDIR, "a directory is there, and the copy is none", path
            )
        self.to.remove(path)

    def _directory(self, path: str, found: os.stat_result) -> None:
        if self.source.is_subvolume(path, found):
            self._lack(path, "its subvolume")
        try:
            self.to.mkdir(path)
        except FileExistsError:
            if not stat.S_ISDIR(self.to.lstat(path).st_mode):
                raise
        for name in self.source.listdir(path):
            self._entry(f"{path}/{name}" if path else name)

    def _make(self, path: str, found: os.stat_result) -> bool:
        """False if it was left behind."""
        mode = found.st_mode
        if stat.S_ISREG(mode):
            self._content(path, found.st_size)
        elif stat.S_ISLNK(mode):
            self.to.symlink(self.source.readlink(path), path)
        else:
            make = stat.S_IFMT(mode) | 0o600
            return self._try(
                path, "it", lambda: self.to.mknod(path, make, found.st_rdev)
            )
        return True

    def _content(self, path: str, size: int) -> None:
        with self.source.open_read(path) as file:
            if self._shares(self.source.place(file), file):
                self._lack(path, "its reflink")
            self._data(path, size, file)

    def _shares(self, place: int, file: Any) -> bool:
        """Whether it has blocks of a file that came before it."""
        known = False
        try:
            for _, length, physical in file.shared_parts():
                known |= self.blocks.add(place, physical, length)
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
        return known

    def _data(self, path: str, size: int, file: Any) -> None:
        with self.to.open_new(path) as new:
            at = 0
            while at < size:
                try:
                    start = file.seek(at, os.SEEK_DATA)
                    end = file.seek(start, os.SEEK_HOLE)
                except OSError as error:
                    if error.errno != errno.ENXIO:
                        raise
                    break  # Only a hole follows.
                self._advance(start - at)
                file.seek(start)
                new.seek(start)
                at = start
                while at < end:
                    n = file.readinto(self.room[: min(_CHUNK, end - at)])
                    if n == 0:
                        break
                    self._write(new, self.room[:n])
                    at += n
                    self._advance(n)
                if at < end:
                    break  # It was cut off meanwhile.
            self._advance(max(size - at, 0))
            new.truncate(size)

    @staticmethod
    def _write(new: Any, data: memoryview) -> None:
        while data:
            data = data[new.write(data) :]

    def _try(self, path: str, what: str, do: Callable[[], None]) -> bool:
        try:
            do()
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            text = f"{path or '.'}: {what} was left behind: {error.strerror}"
            self._lose(text, path, error.errno)
            return False
        return True

    def _lack(self, path: str, what: str, once: bool = False) -> None:
        """What the destination has no way to keep. `once`: of each file, probably."""
        number = errno.EOPNOTSUPP
        verb = "were" if what.endswith("times") else "was"
        text = f"{path or '.'}: {what} {verb} left behind: {os.strerror(number)}"
        if once:
            self._lose_once(what, f"{text} (told once)", path, number)
        else:
            self._lose(text, path, number)

    def _lose_once(self, kind: str, text: str, path: str, number: int) -> None:
        if kind not in self.told:
            self.told.add(kind)
            self._lose(text, path, number)

    def _lose(self, text: str, path: str, number: int) -> None:
        if self.strict:
            raise LossError(number, text, path)
        warnings.warn(text, LossWarning, stacklevel=3)

    def _add_flags(self, path: str, flags: int, project: int) -> None:
        def add_project() -> None:
            with self.to.open_any(path) as file:
                if _flags.of(file)[1] != project:
                    file.set_project(project)

        def add_flags() -> None:
            with self.to.open_any(path) as file:
                _flags.add(file, flags)

        if project:
            self._try(path, f"project {project}", add_project)
        if flags:
            self._try(path, f"flags {_flags.letters(flags)}", add_flags)

    def _finish(self, path: str, found: os.stat_result) -> None:
        """Owner first, which takes bits of the mode away; times last."""
        to = self.to
        mode = stat.S_IMODE(found.st_mode)
        owner: tuple[int, int] | None = (found.st_uid, found.st_gid)
        if self.owners:
            if not self._try(path, "its owner", lambda: to.chown(path, *owner)):  # type: ignore[misc]
                owner = None
                mode &= 0o1777
        elif owner != (os.geteuid(), os.getegid()):
            owner = None
            mode &= 0o1777
            text = "owners were left behind: only root can keep them"
            self._lose_once("owners", text, path, errno.EPERM)
        for name, value in self.source.xattrs(path).items():
            self._try(path, name, lambda n=name, v=value: to.set_xattr(path, n, v))  # type: ignore[misc]
        if not stat.S_ISLNK(found.st_mode):
            to.chmod(path, mode)
        to.utime(path, (found.st_atime_ns, found.st_mtime_ns))
        self._compare(path, found, owner, mode)
        if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
            with self.source.open_any(path) as file:
                flags, project = _flags.of(file)
            if flags or project:
                self.flags.append((path, flags, project))

    def _compare(
        self,
        path: str,
        found: os.stat_result,
        owner: tuple[int, int] | None,
        mode: int,
    ) -> None:
        """What the destination took without a word, and has otherwise."""
        now = self.to.lstat(path)
        forgets = self.to.forgets()
        owners = (now.st_uid, now.st_gid)
        fits = owner is None or all(map(operator.le, owner, forgets.most))
        if owner is not None and (owners != owner or not fits):
            self._lack(path, "its owner")
        if not stat.S_ISLNK(now.st_mode) and stat.S_IMODE(now.st_mode) != mode:
            self._lack(path, "its mode", once=True)
        atime = found.st_mtime_ns if forgets.atime else now.st_atime_ns
        off = abs(now.st_mtime_ns - found.st_mtime_ns)
        # FAT counts in twos.
        if off >= 2 * 10**9:
            self._lack(path, "its times")
        elif off or atime != found.st_atime_ns:
            self._lack(path, "its exact times", once=True)


def copy_out(
    mount: Mount, source: str, to: str, callback: Progress | None, strict: bool
) -> None:
    host = HostSide(to)
    try:
        owners = os.geteuid() == 0
        _Copy(ImageSide(mount, source), host, owners, callback, strict).run()
    finally:
        host.close()


def copy_in(
    mount: Mount, source: str, to: str, callback: Progress | None, strict: bool
) -> None:
    host = HostSide(source)
    try:
        _Copy(host, ImageSide(mount, to), True, callback, strict).run()
    finally:
        host.close()

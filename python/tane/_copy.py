# SPDX-License-Identifier: GPL-2.0-only
"""Copies between a mount and the host.

Both sides are seen through the same few calls, so that one walk serves both ways.
"""

from __future__ import annotations

import contextlib
import errno
import operator
import os
import stat
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import _flags
from ._errors import ForkError, KernelError
from ._failed import SMALL, Failed, LossError, LossWarning
from ._progress import Progress
from ._sharing import Blocks
from ._sides import HostSide, ImageSide, Side
from ._xattrs import is_internal

if TYPE_CHECKING:
    from ._mount import Mount

_CHUNK = 1 << 20
# Holes are made of such blocks where the source does not tell them.
_BLOCK = 64 << 10

# What says that a file system or a user cannot, rather than that something broke.
_REFUSALS = {
    *(errno.EPERM, errno.EACCES, errno.EOPNOTSUPP),
    *(errno.EINVAL, errno.ENOSYS, errno.ENOTTY),
}
# What says that there are no such links there, or no more of them.
_NO_SYMLINK = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}
_NO_LINK = {*_NO_SYMLINK, errno.EMLINK, errno.EXDEV}


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
        self.failed = Failed(to.free)
        # Flags and projects forbid further names and entries: they come last of all.
        self.flags: list[tuple[str, int, int]] = []

    def run(self) -> None:
        if self.callback is not None:
            self.total = self._measure("")
            self.callback(0, self.total)
        self._entry("")
        for path, flags, project in self.flags:
            self._add_flags(path, flags, project)
        self.failed.end()

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
            self._clear(path, stat.S_ISREG(mode))
            key = (found.st_dev, found.st_ino)
            linked = found.st_nlink > 1 and key in self.seen
            if linked and self._link(self.seen[key], path):
                self._advance(found.st_size if stat.S_ISREG(mode) else 0)
                return
            if not self._make(path, found):
                return
            self.seen[key] = path
        self._finish(path, found)

    def _below(self, path: str) -> None:
        """An entry of a directory: one that fails costs itself."""
        if self.failed.stopped:
            self._omit(path)
            return
        small = True
        try:
            found = self.source.lstat(path)
            small = not stat.S_ISREG(found.st_mode) or found.st_size <= SMALL
            self._entry(path)
        except (LossError, KernelError, ForkError):
            raise
        except OSError as error:
            if self.failed.errors[-1:] != [(path, error)]:
                self.failed.add(path, error, small)
        else:
            self.failed.succeed()

    def _omit(self, path: str) -> None:
        """Names a file, and all below it, that were not tried."""
        self.failed.omit(path)
        self._omit_below(path)

    def _omit_below(self, path: str) -> None:
        try:
            if stat.S_ISDIR(self.source.lstat(path).st_mode):
                for name in self.source.listdir(path):
                    self._omit(f"{path}/{name}")
        except (KernelError, ForkError):
            raise
        except OSError as error:
            self.failed.errors.append((path, error))

    def _link(self, first: str, path: str) -> bool:
        """False if it has to be a file of its own."""
        try:
            self.to.link(first, path)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            text = f"{path}: its hard link was left behind: {error.strerror}"
            self._lose(text, path, error.errno)
            return False
        return True

    def _clear(self, path: str, is_file: bool) -> None:
        """Makes way. A file replaces what is there when it is complete."""
        try:
            there = self.to.lstat(path)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(
                errno.EISDIR, "a directory is there, and the copy is none", path
            )
        if not is_file:
            self.to.remove(path)

    def _directory(self, path: str, found: os.stat_result) -> None:
        if self.source.is_subvolume(path, found):
            self._lack(path, "its subvolume")
        try:
            self.to.mkdir(path)
        except FileExistsError as error:
            if not stat.S_ISDIR(self.to.lstat(path).st_mode):
                self._give_up(path, error)
        except OSError as error:
            self._give_up(path, error)
        for name in self.source.listdir(path):
            self._below(f"{path}/{name}" if path else name)

    def _give_up(self, path: str, error: OSError) -> None:
        """A directory cannot be made, and so nothing in it."""
        if path and not isinstance(error, KernelError | ForkError):
            self.failed.add(path, error, small=True)
            self._omit_below(path)
        raise error

    def _make(self, path: str, found: os.stat_result) -> bool:
        """False if it was left behind."""
        mode = found.st_mode
        if stat.S_ISREG(mode):
            self._content(path, found)
        elif stat.S_ISLNK(mode):
            return self._symlink(path)
        else:
            make = stat.S_IFMT(mode) | 0o600
            return self._try(
                path, "it", lambda: self.to.mknod(path, make, found.st_rdev)
            )
        return True

    def _symlink(self, path: str) -> bool:
        try:
            self.to.symlink(self.source.readlink(path), path)
        except OSError as error:
            if error.errno not in _NO_SYMLINK:
                raise
            text = f"{path or '.'}: it (a symlink) was left behind: {error.strerror}"
            self._lose(text, path, error.errno)
            return False
        return True

    def _content(self, path: str, found: os.stat_result) -> None:
        holes = SMALL < found.st_size > found.st_blocks * 512
        self.failed.expect_room(min(found.st_size, found.st_blocks * 512))
        with self.source.open_read(path) as file:
            if self._shares(self.source.place(file), file):
                self._lack(path, "its reflink")
            part = self.to.part(path)
            with self.to.open_new(part) as new:
                # Nothing half-written has the name of the file.
                try:
                    if holes:
                        self._try_quietly(lambda: self.to.allow_holes(part))
                    self._data(found.st_size, file, new, holes)
                except BaseException:
                    self._try_quietly(lambda: self.to.remove(part))
                    raise
            try:
                self.to.rename(part, path)
            except OSError:
                self._try_quietly(lambda: self.to.remove(part))
                raise

    @staticmethod
    def _try_quietly(do: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            do()

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

    def _data(self, size: int, file: Any, new: Any, holes: bool) -> None:
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
            # ntfs3 does not tell where holes are.
            untold = holes and start == 0 and end >= size
            most = _BLOCK if untold else _CHUNK
            file.seek(start)
            new.seek(start)
            at = start
            while at < end:
                n = file.readinto(self.room[: min(most, end - at)])
                if n == 0:
                    break
                at += n
                if untold and bytes(self.room[:n]).count(0) == n:
                    new.seek(at)
                else:
                    self._write(new, self.room[:n])
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
            if is_internal(name):
                continue
            self._try(path, name, lambda n=name, v=value: to.set_xattr(path, n, v))  # type: ignore[misc]
        if not stat.S_ISLNK(found.st_mode):
            # What it has then is compared.
            self._try_quietly(lambda: to.chmod(path, mode))
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

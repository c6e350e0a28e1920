# SPDX-License-Identifier: GPL-2.0-only
"""Paths, as pathlib has them."""

from __future__ import annotations

import errno
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, overload

from ._errors import fail
from ._glob import glob
from ._users import name_of

if TYPE_CHECKING:
    import io

    from _typeshed import (
        OpenBinaryMode,
        OpenBinaryModeReading,
        OpenBinaryModeUpdating,
        OpenBinaryModeWriting,
        OpenTextMode,
    )

    from ._file import RawFile
    from ._mount import Mount
    from ._progress import Progress

Segment: TypeAlias = "str | PurePosixPath | TanePath"

# As Linux has it.
_MOST_LINKS = 40


@functools.total_ordering
class TanePath:
    """A path in a mount, absolute; what pathlib.Path is for the host's files.

    Made by `mount / "etc/fstab"` or `mount.path("etc", "fstab")`. It is no
    os.PathLike: the host's functions would take it for a file of the host.
    Compared and hashed by mount and path.
    """

    __slots__ = ("_path", "mount")

    def __init__(self, mount: Mount, *segments: Segment) -> None:
        parts = (s._path if isinstance(s, TanePath) else s for s in segments)
        self.mount = mount
        self._path: PurePosixPath = PurePosixPath("/", *parts)

    # ---- the words of it

    def __str__(self) -> str:
        text = str(self._path)
        # POSIX leaves it open what two slashes mean; here they mean one.
        return text[1:] if text.startswith("//") else text

    def __repr__(self) -> str:
        return f"TanePath({str(self)!r} of {self.mount.image.path!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TanePath):
            return NotImplemented
        return self.mount is other.mount and self._path == other._path

    def __lt__(self, other: TanePath) -> bool:
        if not isinstance(other, TanePath):
            return NotImplemented
        return self._path < other._path

    def __hash__(self) -> int:
        return hash((id(self.mount), self._path))

    def __truediv__(self, other: Segment) -> TanePath:
        return TanePath(self.mount, self._path, other)

    def joinpath(self, *other: Segment) -> TanePath:
        return TanePath(self.mount, self._path, *other)

    def __reduce__(self) -> Any:
        raise TypeError("a path of a mount cannot be pickled: send its address")

    @property
    def address(self) -> str:
        """IMAGE@SELECTOR:/path, as the command and fsspec take it."""
        selector = self.mount.selector
        at = "" if selector is None else f"@{selector}"
        return f"{self.mount.image.path}{at}:{self}"

    @property
    def name(self) -> str:
        return self._path.name

    @property
    def stem(self) -> str:
        return self._path.stem

    @property
    def suffix(self) -> str:
        return self._path.suffix

    @property
    def suffixes(self) -> list[str]:
        return self._path.suffixes

    @property
    def parts(self) -> tuple[str, ...]:
        return self._path.parts

    @property
    def parent(self) -> TanePath:
        return TanePath(self.mount, self._path.parent)

    @property
    def parents(self) -> tuple[TanePath, ...]:
        return tuple(TanePath(self.mount, p) for p in self._path.parents)

    def with_name(self, name: str) -> TanePath:
        return TanePath(self.mount, self._path.with_name(name))

    def with_stem(self, stem: str) -> TanePath:
        return TanePath(self.mount, self._path.with_stem(stem))

    def with_suffix(self, suffix: str) -> TanePath:
        return TanePath(self.mount, self._path.with_suffix(suffix))

    def relative_to(self, other: Segment) -> PurePosixPath:
        return self._path.relative_to(TanePath(self.mount, other)._path)

    def is_relative_to(self, other: Segment) -> bool:
        return self._path.is_relative_to(TanePath(self.mount, other)._path)

    def match(self, pattern: str) -> bool:
        return self._path.match(pattern)

    # ---- content

    @overload
    def open(
        self,
        mode: OpenTextMode = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> io.TextIOWrapper: ...
    @overload
    def open(  # type: ignore[overload-overlap]
        self, mode: OpenBinaryMode, buffering: Literal[0]
    ) -> RawFile: ...
    @overload
    def open(
        self, mode: OpenBinaryModeUpdating, buffering: Literal[-1, 1] = -1
    ) -> io.BufferedRandom: ...
    @overload
    def open(
        self, mode: OpenBinaryModeWriting, buffering: Literal[-1, 1] = -1
    ) -> io.BufferedWriter: ...
    @overload
    def open(
        self, mode: OpenBinaryModeReading, buffering: Literal[-1, 1] = -1
    ) -> io.BufferedReader: ...
    @overload
    def open(
        self,
        mode: str,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]: ...
    def open(
        self,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> Any:
        """As the built-in open(). Modes of new files are 0o644, without a umask."""
        return self.mount.open(str(self), mode, buffering, encoding, errors, newline)

    def read_bytes(self) -> bytes:
        return self.mount.read_bytes(str(self))

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        with self.open("r", encoding=encoding, errors=errors) as file:
            return file.read()

    def write_bytes(self, data: bytes | bytearray | memoryview) -> int:
        with self.open("wb") as file:
            return file.write(data)

    def write_text(
        self,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> int:
        with self.open("w", -1, encoding, errors, newline) as file:
            return file.write(data)

    # ---- looking

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self.mount.stat(str(self), follow_symlinks=follow_symlinks)

    def lstat(self) -> os.stat_result:
        return self.stat(follow_symlinks=False)

    def _mode(self, follow_symlinks: bool = True) -> int:
        try:
            return self.stat(follow_symlinks=follow_symlinks).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0
        except OSError as error:
            if error.errno == errno.ELOOP:
                return 0
            raise

    def owner(self) -> str:
        """The user's name, by the image's own /etc/passwd; KeyError if not there."""
        return name_of(self.mount, "passwd", self.stat().st_uid)

    def group(self) -> str:
        """The group's name, by the image's own /etc/group; KeyError if not there."""
        return name_of(self.mount, "group", self.stat().st_gid)

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        return self._mode(follow_symlinks) != 0

    def is_dir(self) -> bool:
        return stat.S_ISDIR(self._mode())

    def is_file(self) -> bool:
        return stat.S_ISREG(self._mode())

    def is_symlink(self) -> bool:
        return stat.S_ISLNK(self._mode(False))

    def is_fifo(self) -> bool:
        return stat.S_ISFIFO(self._mode())

    def is_socket(self) -> bool:
        return stat.S_ISSOCK(self._mode())

    def is_block_device(self) -> bool:
        return stat.S_ISBLK(self._mode())

    def is_char_device(self) -> bool:
        return stat.S_ISCHR(self._mode())

    def samefile(self, other: TanePath) -> bool:
        if self.mount is not other.mount:
            return False
        mine, its = self.stat(), other.stat()
        return (mine.st_dev, mine.st_ino) == (its.st_dev, its.st_ino)

    def readlink(self) -> PurePosixPath:
        """Where a link points, as it says: it may be relative."""
        return PurePosixPath(self.mount.readlink(str(self)))

    def resolve(self, strict: bool = False) -> TanePath:
        """Without links and "..", which lead nowhere out of the mount."""
        done: list[str] = []
        todo = list(reversed(self._path.parts[1:]))
        links = 0
        while todo:
            part = todo.pop()
            if part == "..":
                done = done[:-1]
                continue
            here = TanePath(self.mount, *done, part)
            mode = here._mode(False)
            if mode == 0 and strict:
                fail(errno.ENOENT, str(here))
            if not stat.S_ISLNK(mode):
                done.append(part)
                continue
            links += 1
            if links > _MOST_LINKS:
                fail(errno.ELOOP, str(self))
            target = here.readlink()
            if target.is_absolute():
                done = []
            todo += reversed([p for p in target.parts if p != "/"])
        return TanePath(self.mount, *done)

    def iterdir(self) -> Iterator[TanePath]:
        with self.mount.scandir(str(self)) as entries:
            for entry in entries:
                yield self / entry.name

    def walk(
        self, top_down: bool = True, follow_symlinks: bool = False
    ) -> Iterator[tuple[TanePath, list[str], list[str]]]:
        """As Path.walk() of Python 3.12."""
        walked = self.mount.walk(str(self), top_down, follow_symlinks=follow_symlinks)
        for path, dirs, files in walked:
            yield TanePath(self.mount, path), dirs, files

    def glob(self, pattern: str) -> Iterator[TanePath]:
        """As Path.glob(): `**` is any number of directories, links not followed."""
        parts = PurePosixPath(pattern).parts
        if not parts or parts[0] == "/":
            raise ValueError(f"{pattern!r}: not a relative pattern")
        seen = set()
        for path in glob(self, parts):
            if path not in seen:
                seen.add(path)
                yield path

    def rglob(self, pattern: str) -> Iterator[TanePath]:
        """The same in all directories below this one."""
        return self.glob(f"**/{pattern}")

    # ---- making, removing, changing

    def touch(self, mode: int = 0o644, exist_ok: bool = True) -> None:
        self.mount.touch(str(self), mode, exist_ok)

    def mkdir(
        self, mode: int = 0o755, parents: bool = False, exist_ok: bool = False
    ) -> None:
        if parents:
            self.mount.makedirs(str(self), mode, exist_ok)
            return
        try:
            self.mount.mkdir(str(self), mode)
        except FileExistsError:
            if not exist_ok or not self.is_dir():
                raise

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            self.mount.unlink(str(self))
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmdir(self) -> None:
        self.mount.rmdir(str(self))

    def rmtree(self) -> None:
        """Remove it with everything below; links are removed, not followed."""
        self.mount.rmtree(str(self))

    def rename(self, target: Segment) -> TanePath:
        """What has the new name is replaced. The new path."""
        to = TanePath(self.mount, target)
        self.mount.rename(str(self), str(to))
        return to

    replace = rename

    def symlink_to(self, target: Segment, target_is_directory: bool = False) -> None:
        """Make this a link that says `target`."""
        self.mount.symlink(str(target), str(self))

    def hardlink_to(self, target: Segment) -> None:
        self.mount.link(str(TanePath(self.mount, target)), str(self))

    def chmod(self, mode: int) -> None:
        self.mount.chmod(str(self), mode)

    def chown(self, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """-1 leaves one as it is."""
        self.mount.chown(str(self), uid, gid, follow_symlinks=follow_symlinks)

    # ---- extended attributes

    def getxattr(self, name: str, *, follow_symlinks: bool = True) -> bytes:
        return self.mount.getxattr(str(self), name, follow_symlinks=follow_symlinks)

    def setxattr(
        self, name: str, value: bytes, flags: int = 0, *, follow_symlinks: bool = True
    ) -> None:
        self.mount.setxattr(
            str(self), name, value, flags, follow_symlinks=follow_symlinks
        )

    def listxattr(self, *, follow_symlinks: bool = True) -> list[str]:
        return self.mount.listxattr(str(self), follow_symlinks=follow_symlinks)

    def removexattr(self, name: str, *, follow_symlinks: bool = True) -> None:
        self.mount.removexattr(str(self), name, follow_symlinks=follow_symlinks)

    # ---- copying

    def copy_out(
        self,
        to: str | os.PathLike[str],
        *,
        callback: Progress | None = None,
        strict: bool = False,
    ) -> None:
        """See `Mount.copy_out`."""
        self.mount.copy_out(str(self), to, callback=callback, strict=strict)

    def copy_in(
        self,
        source: str | os.PathLike[str],
        *,
        callback: Progress | None = None,
        strict: bool = False,
    ) -> None:
        """Copy a file or tree of the host to this path: see `Mount.copy_in`."""
        self.mount.copy_in(source, str(self), callback=callback, strict=strict)

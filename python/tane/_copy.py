# SPDX-License-Identifier: GPL-2.0-only
"""Copies between a mount and the host.

Both sides are seen through the same few calls, so that one walk serves both ways.
The host's side works by descriptors of directories and follows no link: a name
from a hostile image leads nowhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ._closing import Closing

if TYPE_CHECKING:
    from ._mount import Mount

Progress: TypeAlias = Callable[[int, int], object]

_CHUNK = 1 << 20

# What says that a file system or a user cannot, rather than that something broke.
_REFUSALS = {errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


class LossWarning(UserWarning):
    """A copy left something behind."""


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


class Side(Protocol):
    """A place that is copied from or to. Paths are relative to its top; "" is it."""

    def lstat(self, path: str) -> os.stat_result: ...
    def listdir(self, path: str) -> list[str]: ...
    def readlink(self, path: str) -> str: ...
    def open_read(self, path: str) -> Any: ...
    def open_new(self, path: str) -> Any: ...
    def mkdir(self, path: str) -> None: ...
    def symlink(self, target: str, path: str) -> None: ...
    def link(self, path: str, new: str) -> None: ...
    def mknod(self, path: str, mode: int, device: int) -> None: ...
    def remove(self, path: str) -> None: ...
    def chmod(self, path: str, mode: int) -> None: ...
    def chown(self, path: str, uid: int, gid: int) -> None: ...
    def utime(self, path: str, ns: tuple[int, int]) -> None: ...
    def xattrs(self, path: str) -> dict[str, bytes]: ...
    def set_xattr(self, path: str, name: str, value: bytes) -> None: ...


class ImageSide:
    def __init__(self, mount: Mount, top: str) -> None:
        self.mount = mount
        self.top = top

    def _at(self, path: str) -> str:
        return f"{self.top}/{path}" if path else self.top

    def lstat(self, path: str) -> os.stat_result:
        return self.mount.lstat(self._at(path))

    def listdir(self, path: str) -> list[str]:
        return self.mount.listdir(self._at(path))

    def readlink(self, path: str) -> str:
        return self.mount.readlink(self._at(path))

    def open_read(self, path: str) -> Any:
        from ._file import RawFile

        return RawFile(self.mount, self._at(path), os.O_RDONLY | os.O_NOFOLLOW, 0)

    def open_new(self, path: str) -> Any:
        from ._file import RawFile

        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        return RawFile(self.mount, self._at(path), flags, 0o600)

    def mkdir(self, path: str) -> None:
        self.mount.mkdir(self._at(path), 0o700)

    def symlink(self, target: str, path: str) -> None:
        self.mount.symlink(target, self._at(path))

    def link(self, path: str, new: str) -> None:
        self.mount.link(self._at(path), self._at(new))

    def mknod(self, path: str, mode: int, device: int) -> None:
        self.mount.mknod(self._at(path), mode, device)

    def remove(self, path: str) -> None:
        self.mount.unlink(self._at(path))

    def chmod(self, path: str, mode: int) -> None:
        self.mount.chmod(self._at(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        self.mount.chown(self._at(path), uid, gid, follow_symlinks=False)

    def utime(self, path: str, ns: tuple[int, int]) -> None:
        self.mount.utime(self._at(path), ns=ns, follow_symlinks=False)

    def xattrs(self, path: str) -> dict[str, bytes]:
        at = self._at(path)
        names = self.mount.listxattr(at, follow_symlinks=False)
        get = self.mount.getxattr
        return {name: get(at, name, follow_symlinks=False) for name in names}

    def set_xattr(self, path: str, name: str, value: bytes) -> None:
        self.mount.setxattr(self._at(path), name, value, follow_symlinks=False)


class HostFile(Closing):
    """What RawFile has, for a descriptor of the host."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        os.close(self.fd)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return os.lseek(self.fd, offset, whence)

    def readinto(self, buffer: memoryview) -> int:
        return os.readv(self.fd, [buffer])

    def write(self, data: memoryview) -> int:
        return os.write(self.fd, data)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.fd, size)


class HostSide:
    def __init__(self, top: str) -> None:
        head, tail = os.path.split(os.path.abspath(top))
        if not tail:
            raise ValueError(f"{top}: the host's root is not the name of a copy")
        self.root = os.open(head, os.O_RDONLY | os.O_DIRECTORY)
        self.top = tail

    def close(self) -> None:
        os.close(self.root)

    @contextlib.contextmanager
    def _in(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory that a path's last name is in, by its descriptor."""
        *parents, name = [self.top, *path.split("/")] if path else [self.top]
        fd = os.dup(self.root)
        try:
            for parent in parents:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
                below = os.open(parent, flags, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd, name
        finally:
            os.close(fd)

    def lstat(self, path: str) -> os.stat_result:
        with self._in(path) as (fd, name):
            return os.stat(name, dir_fd=fd, follow_symlinks=False)

    def listdir(self, path: str) -> list[str]:
        with self._in(path) as (fd, name):
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            below = os.open(name, flags, dir_fd=fd)
            try:
                return os.listdir(below)
            finally:
                os.close(below)

    def readlink(self, path: str) -> str:
        with self._in(path) as (fd, name):
            return os.readlink(name, dir_fd=fd)

    def open_read(self, path: str) -> HostFile:
        with self._in(path) as (fd, name):
            return HostFile(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=fd))

    def open_new(self, path: str) -> HostFile:
        with self._in(path) as (fd, name):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            return HostFile(os.open(name, flags, 0o600, dir_fd=fd))

    def mkdir(self, path: str) -> None:
        with self._in(path) as (fd, name):
            os.mkdir(name, 0o700, dir_fd=fd)

    def symlink(self, target: str, path: str) -> None:
        with self._in(path) as (fd, name):
            os.symlink(target, name, dir_fd=fd)

    def link(self, path: str, new: str) -> None:
        with self._in(path) as (fd, name), self._in(new) as (new_fd, new_name):
            os.link(
                name, new_name, src_dir_fd=fd, dst_dir_fd=new_fd, follow_symlinks=False
            )

    def mknod(self, path: str, mode: int, device: int) -> None:
        with self._in(path) as (fd, name):
            os.mknod(name, mode, device, dir_fd=fd)

    def remove(self, path: str) -> None:
        with self._in(path) as (fd, name):
            os.unlink(name, dir_fd=fd)

    def chmod(self, path: str, mode: int) -> None:
        # Never of a link, and of nothing that was not made by this copy.
        with self._in(path) as (fd, name):
            os.chmod(name, mode, dir_fd=fd)

    def chown(self, path: str, uid: int, gid: int) -> None:
        with self._in(path) as (fd, name):
            os.chown(name, uid, gid, dir_fd=fd, follow_symlinks=False)

    def utime(self, path: str, ns: tuple[int, int]) -> None:
        with self._in(path) as (fd, name):
            os.utime(name, ns=ns, dir_fd=fd, follow_symlinks=False)

    def xattrs(self, path: str) -> dict[str, bytes]:
        with self._in(path) as (fd, name):
            at = f"/proc/self/fd/{fd}/{name}"
            try:
                names = os.listxattr(at, follow_symlinks=False)
            except OSError as error:
                if error.errno == errno.EOPNOTSUPP:
                    return {}
                raise
            get = os.getxattr
            return {n: get(at, n, follow_symlinks=False) for n in names}

    def set_xattr(self, path: str, name: str, value: bytes) -> None:
        with self._in(path) as (fd, last):
            at = f"/proc/self/fd/{fd}/{last}"
            os.setxattr(at, name, value, follow_symlinks=False)


class _Copy:
    """One copy of a file or tree."""

    def __init__(
        self, source: Side, to: Side, owners: bool, callback: Progress | None
    ) -> None:
        self.source = source
        self.to = to
        self.owners = owners
        self.callback = callback
        self.done = 0
        self.total = 0
        self.room = memoryview(bytearray(_CHUNK))
        self.warned = False
        # Where files with several names went.
        self.seen: dict[tuple[int, int], str] = {}

    def run(self) -> None:
        if self.callback is not None:
            self.total = self._measure("")
            self.callback(0, self.total)
        self._entry("")

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
            self._directory(path)
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

    def _directory(self, path: str) -> None:
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
        with self.source.open_read(path) as file, self.to.open_new(path) as new:
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
            warnings.warn(text, LossWarning, stacklevel=2)
            return False
        return True

    def _finish(self, path: str, found: os.stat_result) -> None:
        """Owner first, which takes bits of the mode away; times last."""
        to = self.to
        mode = stat.S_IMODE(found.st_mode)
        if self.owners:
            owner = (found.st_uid, found.st_gid)
            if not self._try(path, "its owner", lambda: to.chown(path, *owner)):
                mode &= 0o1777
        elif (found.st_uid, found.st_gid) != (os.geteuid(), os.getegid()):
            mode &= 0o1777
            if not self.warned:
                self.warned = True
                text = "owners were left behind: only root can keep them"
                warnings.warn(text, LossWarning, stacklevel=2)
        for name, value in self.source.xattrs(path).items():
            self._try(path, name, lambda n=name, v=value: to.set_xattr(path, n, v))  # type: ignore[misc]
        if not stat.S_ISLNK(found.st_mode):
            to.chmod(path, mode)
        to.utime(path, (found.st_atime_ns, found.st_mtime_ns))


def copy_out(mount: Mount, source: str, to: str, callback: Progress | None) -> None:
    host = HostSide(to)
    try:
        _Copy(ImageSide(mount, source), host, os.geteuid() == 0, callback).run()
    finally:
        host.close()


def copy_in(mount: Mount, source: str, to: str, callback: Progress | None) -> None:
    host = HostSide(source)
    try:
        _Copy(host, ImageSide(mount, to), True, callback).run()
    finally:
        host.close()

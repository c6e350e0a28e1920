# SPDX-License-Identifier: GPL-2.0-only
"""The two sides of a copy: a mount and the host.

The host's side works by descriptors of directories and follows no link: a name
from a hostile image leads nowhere.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import posixpath
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ._closing import Closing
from ._flags import HostFlags
from ._sharing import BTRFS, SUBVOLUME, HostBlocks

if TYPE_CHECKING:
    from ._mount import Mount


class Forgets(NamedTuple):
    """What a file system shows until it is mounted again, and then has otherwise."""

    most: tuple[int, int] = (0xFFFF_FFFF, 0xFFFF_FFFF)
    """The highest owner and group it has room for."""
    atime: bool = False


# By their magic numbers: minix, by version and length of names, and nilfs2.
_FORGETS = {
    **dict.fromkeys([0x137F, 0x138F], Forgets((0xFFFF, 0xFF), True)),
    **dict.fromkeys([0x2468, 0x2478, 0x4D5A], Forgets((0xFFFF, 0xFFFF))),
    0x3434: Forgets(atime=True),
}


class Side(Protocol):
    """A place that is copied from or to. Paths are relative to its top; "" is it, and
    "/NAME" beside it."""

    def lstat(self, path: str) -> os.stat_result: ...
    def listdir(self, path: str) -> list[str]: ...
    def readlink(self, path: str) -> str: ...
    def open_read(self, path: str) -> Any: ...
    def open_new(self, path: str) -> Any: ...
    def open_any(self, path: str) -> Any: ...
    def part(self, path: str) -> str:
        """A path beside this one that nothing has; it may only be made, renamed to it
        and removed."""

    def rename(self, path: str, new: str) -> None: ...
    def free(self) -> int:
        """Bytes."""

    def allow_holes(self, path: str) -> None:
        """Of a new file. On NTFS only a file that is sparse has some."""

    def mkdir(self, path: str) -> None: ...
    def symlink(self, target: str, path: str) -> None: ...
    def link(self, path: str, new: str) -> None: ...
    def mknod(self, path: str, mode: int, device: int) -> None: ...
    def remove(self, path: str) -> None: ...
    def chmod(self, path: str, mode: int) -> None: ...
    def chown(self, path: str, uid: int, gid: int) -> None: ...
    def utime(self, path: str, ns: tuple[int, int]) -> None: ...
    def forgets(self) -> Forgets: ...
    def place(self, file: Any) -> int:
        """What the blocks of an open file are counted in."""

    def is_subvolume(self, path: str, found: os.stat_result) -> bool:
        """Whether a directory is one of btrfs; not of the top of a mount."""

    def xattrs(self, path: str) -> dict[str, bytes]: ...
    def set_xattr(self, path: str, name: str, value: bytes) -> None: ...


_ATTRIBUTES = "system.ntfs_attrib"
_SPARSE, _COMPRESSED = 0x200, 0x800


def _sparse(attributes: bytes) -> bytes:
    found = int.from_bytes(attributes, sys.byteorder)
    # What is compressed has holes.
    add = 0 if found & _COMPRESSED else _SPARSE
    return (found | add).to_bytes(4, sys.byteorder)


_numbers = itertools.count()


def _part(path: str) -> str:
    name = f".tane-{os.getpid()}-{next(_numbers)}.part"
    above, slash, _ = path.rpartition("/")
    return above + slash + name if path else f"/{name}"


class ImageSide:
    def __init__(self, mount: Mount, top: str) -> None:
        self.mount = mount
        self.top = top
        self.magic = mount.magic()

    def _at(self, path: str) -> str:
        if path.startswith("/"):
            return posixpath.dirname(self.top.rstrip("/")) + path
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

    def open_any(self, path: str) -> Any:
        """A file or directory, for its flags."""
        from ._file import RawFile

        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        return RawFile(self.mount, self._at(path), flags, 0)

    def part(self, path: str) -> str:
        return _part(path)

    def rename(self, path: str, new: str) -> None:
        self.mount.rename(self._at(path), self._at(new))

    def free(self) -> int:
        found = self.mount.statvfs()
        return found.f_bavail * found.f_frsize

    def allow_holes(self, path: str) -> None:
        now = self.mount.getxattr(self._at(path), _ATTRIBUTES)
        self.mount.setxattr(self._at(path), _ATTRIBUTES, _sparse(now))

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

    def forgets(self) -> Forgets:
        return _FORGETS.get(self.magic, Forgets())

    def place(self, file: Any) -> int:
        return 0

    def is_subvolume(self, path: str, found: os.stat_result) -> bool:
        is_top = not self._at(path).strip("/.")
        return found.st_ino == SUBVOLUME and not is_top and self.magic == BTRFS

    def xattrs(self, path: str) -> dict[str, bytes]:
        at = self._at(path)
        names = self.mount.listxattr(at, follow_symlinks=False)
        get = self.mount.getxattr
        return {name: get(at, name, follow_symlinks=False) for name in names}

    def set_xattr(self, path: str, name: str, value: bytes) -> None:
        self.mount.setxattr(self._at(path), name, value, follow_symlinks=False)


class HostFile(HostFlags, HostBlocks, Closing):
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
        if path.startswith("/"):
            parents, name = [], path[1:]
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

    def open_any(self, path: str) -> HostFile:
        with self._in(path) as (fd, name):
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            return HostFile(os.open(name, flags, dir_fd=fd))

    def part(self, path: str) -> str:
        return _part(path)

    def rename(self, path: str, new: str) -> None:
        with self._in(path) as (fd, name), self._in(new) as (new_fd, new_name):
            os.rename(name, new_name, src_dir_fd=fd, dst_dir_fd=new_fd)

    def free(self) -> int:
        try:
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
            top = os.open(self.top, flags, dir_fd=self.root)
        except OSError:
            top = os.dup(self.root)
        try:
            found = os.fstatvfs(top)
        finally:
            os.close(top)
        return found.f_bavail * found.f_frsize

    def allow_holes(self, path: str) -> None:
        with self._in(path) as (fd, name):
            at = f"/proc/self/fd/{fd}/{name}"
            os.setxattr(at, _ATTRIBUTES, _sparse(os.getxattr(at, _ATTRIBUTES)))

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

    def forgets(self) -> Forgets:
        # Python does not say of which type the host's file system is.
        return Forgets()

    def place(self, file: HostFile) -> int:
        return file.place()

    def is_subvolume(self, path: str, found: os.stat_result) -> bool:
        if found.st_ino != SUBVOLUME:
            return False
        with self.open_any(path) as dir:
            return dir.is_subvolume()

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

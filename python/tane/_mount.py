# SPDX-License-Identifier: GPL-2.0-only
"""Mounts: files by path, as `os` has the host's."""

from __future__ import annotations

import errno
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, Literal, overload

from . import _copy, _file, _progress
from ._calls import Name, nofollow
from ._closing import Closing, closed_first
from ._errors import fail, forks, message
from ._host_mount import HostMount
from ._listing import ScanDir, walk_at_once
from ._many import read_many
from ._path import TanePath
from ._stat import STAT_SIZE, nanoseconds, stat_result
from ._tane import ffi, lib
from ._xattrs import Xattrs

if TYPE_CHECKING:
    from ._disk import RamDisk
    from ._image import Image
    from ._kernel import Kernel

# How long close() waits for other threads, in seconds.
_PATIENCE = 60

_KEEP = 0x3FFFFFFE


def mount_options(fstype: str | None, options: str) -> tuple[Any, list[Any]]:
    """As of mount(8), in C's structure, and what has to outlive its use."""
    raw = ffi.new("struct tane_mount_options *")
    raw.size = ffi.sizeof("struct tane_mount_options")
    keep = [ffi.new("char[]", options.encode())]
    raw.options = keep[0]
    if fstype is not None:
        keep.append(ffi.new("char[]", fstype.encode()))
        raw.type = keep[-1]
    return raw, keep


class Mount(Xattrs, Closing):
    """A mounted file system of an image; made by `tane.open` or `Image.mount`.

    `mount / "etc"` is a `TanePath`; the methods here take paths as str and do what
    those of `os` of the same name do. Modes are exact: there is no umask.

    Close it (or leave its context) when the image matters: only that says whether
    everything was written.
    """

    def __init__(
        self, handle: Any, image: Image | RamDisk, selector: str | None
    ) -> None:
        self.image = image
        self._handle = ffi.gc(handle, lib.tane_unmount)
        self._forks = forks()
        self._owns_image = False
        self._shown: list[HostMount] = []
        self.selector = selector

    @property
    def kernel(self) -> Kernel:
        return self.image.kernel

    @property
    def root(self) -> TanePath:
        return TanePath(self)

    def path(self, *segments: Name) -> TanePath:
        return TanePath(self, *segments)

    def __truediv__(self, other: Name) -> TanePath:
        return TanePath(self, other)

    # ---- content

    def open(
        self,
        path: Name,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        *,
        permissions: int = 0o644,
    ) -> IO[Any]:
        """As the built-in open(); `TanePath.open` is the same with closer types.

        buffering=0 gives the `RawFile`.
        """
        return _file.open_file(
            self,
            self._text(path),
            mode,
            buffering,
            encoding,
            errors,
            newline,
            permissions,
        )

    def read_bytes(self, path: Name) -> bytes:
        """The whole content of a file. A small one takes a single call."""
        return _file.read_bytes(self, self._text(path))

    @overload
    def read_many(
        self, paths: Iterable[Name], *, on_error: Literal["raise"] = "raise"
    ) -> list[bytes]: ...
    @overload
    def read_many(
        self, paths: Iterable[Name], *, on_error: Literal["return"]
    ) -> list[bytes | OSError]: ...
    def read_many(
        self, paths: Iterable[Name], *, on_error: Literal["raise", "return"] = "raise"
    ) -> Any:
        """The contents of many files, in order: the fast way to read them.

        on_error="return" puts the exception in the place of a file that cannot be
        read.
        """
        return read_many(self, paths, on_error == "raise")

    # ---- looking

    def stat(self, path: Name, *, follow_symlinks: bool = True) -> os.stat_result:
        return stat_result(self._stat(path, follow_symlinks))

    def _stat(self, path: Name, follow_symlinks: bool = True) -> Any:
        raw = ffi.new("struct tane_stat *")
        raw.size = STAT_SIZE
        self._do(lib.tane_stat, path, nofollow(path, follow_symlinks), raw)
        return raw

    def lstat(self, path: Name) -> os.stat_result:
        return self.stat(path, follow_symlinks=False)

    def birthtime_ns(self, path: Name) -> int | None:
        """When a file came into being, in ns since 1970; None if not remembered."""
        raw = self._stat(path)
        return nanoseconds(raw.btime) if raw.has_btime else None

    def exists(self, path: Name) -> bool:
        return self.path(path).exists()

    def scandir(self, path: Name = "/", *, stat: bool = False) -> ScanDir:
        """The entries of a directory, in the file system's order.

        stat=True has their stat() come along, which is faster than asking for each.
        """
        return ScanDir(self, self._text(path), lib.TANE_LIST_STAT if stat else 0)

    def listdir(self, path: Name = "/") -> list[str]:
        with self.scandir(path) as entries:
            return entries._names()[0]

    def walk(
        self, top: Name = "/", top_down: bool = True, *, follow_symlinks: bool = False
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """As os.walk(), except that errors are raised."""
        if top_down and not follow_symlinks and self.image.mode == "r":
            yield from walk_at_once(self, self._text(top))
            return
        dirs, files = [], []
        with self.scandir(top) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=follow_symlinks):
                    dirs.append(entry.name)
                else:
                    files.append(entry.name)
        path = self._text(top)
        base = path if path.endswith("/") else path + "/"
        if top_down:
            yield path, dirs, files
        for name in dirs:
            yield from self.walk(base + name, top_down, follow_symlinks=follow_symlinks)
        if not top_down:
            yield path, dirs, files

    def readlink(self, path: Name) -> str:
        to = ffi.new("char[]", 4096)
        length = self._do(lib.tane_readlink, path, to, 4096)
        return os.fsdecode(ffi.unpack(to, length))

    def _statfs(self) -> Any:
        raw = ffi.new("struct tane_statfs *")
        raw.size = ffi.sizeof("struct tane_statfs")
        answer = lib.tane_statfs(self._get(), raw)
        if answer < 0:
            fail(-answer, made=self._forks)
        return raw

    def magic(self) -> int:
        """The number of the file system's type, as statfs(2) has it."""
        return int(self._statfs().magic)

    def statvfs(self) -> os.statvfs_result:
        """How full the file system is."""
        raw = self._statfs()
        unit = raw.block_size
        blocks = [n // unit for n in (raw.total, raw.free, raw.available)]
        files = (raw.files, raw.files_free, raw.files_free)
        flags = os.ST_RDONLY if raw.read_only else 0
        return os.statvfs_result((unit, unit, *blocks, *files, flags, raw.name_max))

    # ---- making, removing, changing

    def mkdir(self, path: Name, mode: int = 0o755) -> None:
        self._do(lib.tane_mkdir, path, mode)

    def makedirs(self, path: Name, mode: int = 0o755, exist_ok: bool = False) -> None:
        """Those it lies in get mode 0o755."""
        here = self.path(path)
        for parent in reversed(here.parents):
            try:
                self.mkdir(parent)
            except OSError:
                if not parent.is_dir():
                    raise
        here.mkdir(mode, exist_ok=exist_ok)

    def touch(self, path: Name, mode: int = 0o644, exist_ok: bool = True) -> None:
        flags = os.O_WRONLY | os.O_CREAT | (0 if exist_ok else os.O_EXCL)
        _file.RawFile(self, self._text(path), flags, mode).close()
        self.utime(path)

    def unlink(self, path: Name) -> None:
        self._do(lib.tane_unlink, path)

    remove = unlink

    def rmdir(self, path: Name) -> None:
        self._do(lib.tane_rmdir, path)

    def rmtree(self, path: Name) -> None:
        """Remove it with everything below; links are removed, not followed."""
        self._do(lib.tane_remove_all, path)

    def _two(self, call: Any, path: Name, new: Name, *args: Any) -> None:
        answer = call(self._get(), self._name(path), self._name(new), *args)
        if answer < 0:
            fail(-answer, str(path), None, str(new), self._forks)

    def rename(self, path: Name, new: Name) -> None:
        """What has the new name is replaced."""
        self._two(lib.tane_rename, path, new, 0)

    replace = rename

    def link(self, path: Name, new: Name) -> None:
        self._two(lib.tane_link, path, new)

    def symlink(self, target: str, path: Name) -> None:
        """Make a link at `path` that says `target`."""
        self._two(lib.tane_symlink, target, path)

    def mknod(self, path: Name, mode: int, device: int = 0) -> None:
        self._do(lib.tane_mknod, path, mode, device)

    def truncate(self, path: Name, length: int) -> None:
        self._do(lib.tane_truncate, path, length)

    def chmod(self, path: Name, mode: int) -> None:
        self._do(lib.tane_chmod, path, mode)

    def chown(
        self, path: Name, uid: int, gid: int, *, follow_symlinks: bool = True
    ) -> None:
        """-1 leaves one as it is."""
        uid, gid = uid & 0xFFFFFFFF, gid & 0xFFFFFFFF
        self._do(lib.tane_chown, path, uid, gid, nofollow(path, follow_symlinks))

    def utime(
        self,
        path: Name,
        *,
        ns: tuple[int, int] | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Access and modification time in ns since 1970; None: now."""
        stamps = []
        for value in ns or (time.time_ns(),) * 2:
            seconds, nanoseconds = divmod(value, 1_000_000_000)
            stamp = ffi.new("struct tane_timestamp *")
            stamp.seconds, stamp.nanoseconds = seconds, nanoseconds
            stamps.append(stamp)
        self._do(lib.tane_utimens, path, *stamps, nofollow(path, follow_symlinks))

    # ---- copying

    def copy_out(
        self,
        source: Name,
        to: str | os.PathLike[str],
        *,
        callback: _progress.Progress | None = None,
        strict: bool = False,
    ) -> None:
        """Copy a file or tree to the host, where `to` is the copy's own name.

        Kept: content with its holes, times, modes, links, hard links within the
        tree, devices and FIFOs, extended attributes, chattr flags, projects, and
        owners if the process is root. What the destination refuses is left behind
        with a `LossWarning`; `strict` makes it a `LossError`, which ends the copy.

        CopyError: files of a tree could not be copied, and the others were.
        Files there are replaced; links there are never followed.

        `callback(bytes_done, bytes_total)` is called as it goes; see `tane.drive`.
        """
        _copy.copy_out(self, self._text(source), os.fspath(to), callback, strict)

    def copy_in(
        self,
        source: str | os.PathLike[str],
        to: Name,
        *,
        callback: _progress.Progress | None = None,
        strict: bool = False,
    ) -> None:
        """The other way round. Owners are kept."""
        _copy.copy_in(self, os.fspath(source), self._text(to), callback, strict)

    # ---- showing

    def host_mount(
        self,
        point: str | os.PathLike[str],
        *,
        directory: Name = "/",
        source: str | None = None,
        allow_other: bool = False,
        xattrs_if_any: bool = False,
    ) -> HostMount:
        """Show it, or a directory of it, at an existing directory of the host: all
        programs see the files there, by FUSE, and write if the image is open for that.

        >>> with mount.host_mount("/mnt"):
        ...     subprocess.run(["grep", "-r", "root", "/mnt/etc"])

        It ends with what is returned, or with this mount, and stays though nobody keeps
        what is returned. The image's kernel stays where it is, in its jail unless that
        was declined; this process answers for it. What this process changes by the
        mount's own methods meanwhile may be seen late or not at all there.

        source: what the host's lists of mounts show as the device. allow_other: let
        other users in, with the permissions in the image; without, whoever mounts is
        root there, and alone, but if root mounts, others are always let in.
        xattrs_if_any: see `tane mount --help`.

        OSError: ENOENT if the directory, or /dev/fuse, is not there; EACCES and EPERM
        if this user, or this container, may not mount. Who is not root needs
        fusermount3.
        """
        shown = HostMount(
            self,
            os.fspath(point),
            self._text(directory),
            source,
            allow_other,
            xattrs_if_any,
        )
        # It stays though nobody has it.
        self._shown = [*(one for one in self._shown if one._handle), shown]
        return shown

    # ---- the end

    def sync(self) -> None:
        """Everything written so far is in the image when this returns."""
        answer = lib.tane_sync(self._get())
        if answer < 0:
            fail(-answer, self.image.path, message(), made=self._forks)

    def close(self) -> None:
        """Write everything back and unmount, first where the host sees it. Twice does
        nothing.

        OSError: a write failed since the mount, and the data may be incomplete;
        EBUSY: files are still open, and the mount stays until they are closed.
        """
        with closed_first(self._shown):
            self._shown = []
            self._close()

    def _close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is None:
            return
        try:
            if self._forks != forks():
                # Nothing can be done for it here; the parent has it.
                ffi.gc(handle, None)
                return
            # Other threads may be inside a call, whose arguments hold references.
            end = time.monotonic() + _PATIENCE
            while sys.getrefcount(handle) > 2:
                if time.monotonic() > end:
                    self._handle = handle
                    fail(errno.EBUSY, self.image.path, "another thread is using it")
                time.sleep(0.001)
            ffi.gc(handle, None)
            answer = lib.tane_unmount(handle)
            if answer < 0:
                fail(-answer, self.image.path, message(), made=self._forks)
        finally:
            if self._owns_image:
                self.image.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and self.image.mode == "rw":
            # It is unmounted, but nobody hears whether all was written.
            text = f"unclosed {self!r}"
            warnings.warn(text, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else "open"
        return f"<tane.Mount of {self.image.path!r} {state}>"

# SPDX-License-Identifier: GPL-2.0-only
"""fsspec: `tane://IMAGE:/path` and `tane://IMAGE@SELECTOR:/path`.

Installed under an entry point, so that whatever opens URLs by fsspec opens these:

>>> import pandas as pd
>>> pd.read_csv("tane://disk.qcow2@1:/data.csv")
"""

from __future__ import annotations

import errno
import os
import stat
from datetime import UTC, datetime
from typing import IO, Any

from fsspec.spec import AbstractFileSystem

from . import _shared
from ._address import Address, is_remote
from ._errors import forks
from ._image import Selector, selected
from ._mount import Mount
from ._options import taken
from ._shared import Wish

_PREFIX = "tane://"


class TaneFileSystem(AbstractFileSystem):
    """The files of an image, for fsspec.

    Nothing is written unless storage option `writable` is True; that locks the
    image until `close()` or the end of the process. A file that was written is in
    the image once it is closed. The other options are those of `tane.open`, with
    `tane.ImageOptions`. File systems of one image with the same options share a kernel,
    in all threads, and who reads sees what another one writes.

    After a fork the child opens images for itself, if they are only read.
    """

    protocol = "tane"
    root_marker = "/"

    def __init__(
        self,
        image: str | os.PathLike[str],
        selector: Selector | None = None,
        *,
        writable: bool = False,
        fstype: str | None = None,
        mount_options: str = "",
        memory: int | None = None,
        kernel_image: str | None = None,
        jail: bool = True,
        memory_limit: int | None = None,
        time_limit: float | None = None,
        **storage_options: Any,
    ) -> None:
        opened_by = taken(storage_options)
        super().__init__(**storage_options)
        remote = is_remote(os.fspath(image))
        self.image = os.fspath(image) if remote else os.path.realpath(image)
        self.selector = None if selector is None else selected(selector)
        self.writable = writable
        options = {
            **dict(opened_by),
            "memory": memory,
            "kernel_image": kernel_image,
            "jail": jail,
            "memory_limit": memory_limit,
            "time_limit": time_limit,
        }
        mount = {
            "selector": self.selector,
            "fstype": fstype,
            "options": mount_options,
        }
        self._wish = Wish(
            self.image,
            "rw" if writable else "r",
            tuple(options.items()),
            tuple(mount.items()),
        )
        self._kept: Mount | None = None
        self._forks = forks()

    @property
    def mount(self) -> Mount:
        """The mount behind it; opened when first used."""
        kept = self._kept
        if kept is not None and kept._handle is not None and self._forks == forks():
            return kept
        if self.writable and kept is not None and self._forks != forks():
            # Both would write to one file system. This says why not.
            kept._do(_refused, "/")
        mount = _shared.mounted(self._wish)
        self._kept, self._forks = mount, forks()
        return mount

    def close(self) -> None:
        """Unmount and unlock the image; used again, it is opened again. Who only reads
        leaves to who writes what both use."""
        kept, self._kept = self._kept, None
        if kept is not None and (self.writable or kept.image.mode == "r"):
            _shared.close(kept)

    def sync(self) -> None:
        """Everything written so far is in the image when this returns."""
        self.mount.sync()

    # ---- names

    @classmethod
    def _parse(cls, url: str) -> Address:
        address = Address.parse(url.removeprefix(_PREFIX))
        assert address is not None
        return address

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(p) for p in path]
        path = str(path)
        if path.startswith(_PREFIX):
            path = cls._parse(path).path
        return "/" + path.strip("/")

    def unstrip_protocol(self, name: str) -> str:
        path = self._strip_protocol(name)
        return _PREFIX + str(Address(self.image, self.selector, path))

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, Any]:
        if not path.startswith(_PREFIX):
            return {}
        address = TaneFileSystem._parse(path)
        found: dict[str, Any] = {"image": address.image}
        if address.selector is not None:
            found["selector"] = address.selector
        return found

    @property
    def fsid(self) -> str:
        return f"tane:{Address(self.image, self.selector, '/')}"

    # ---- looking

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        return self._info(path, self.mount.lstat(path))

    def _info(self, path: str, found: os.stat_result) -> dict[str, Any]:
        info: dict[str, Any] = {"name": path, "islink": stat.S_ISLNK(found.st_mode)}
        if info["islink"]:
            info["destination"] = self.mount.readlink(path)
            try:
                found = self.mount.stat(path)
            except OSError as error:
                # A link that leads nowhere is shown as it is.
                if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                    raise
        mode = found.st_mode
        kind = "other"
        if stat.S_ISDIR(mode):
            kind = "directory"
        elif stat.S_ISREG(mode):
            kind = "file"
        elif stat.S_ISLNK(mode):
            kind = "link"
        info |= {
            "size": found.st_size if kind == "file" else 0,
            "type": kind,
            "mode": mode,
            "uid": found.st_uid,
            "gid": found.st_gid,
            "mtime": found.st_mtime,
            "created": found.st_ctime,
            "ino": found.st_ino,
            "nlink": found.st_nlink,
        }
        return info

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            with self.mount.scandir(path, stat=detail) as entries:
                if not detail:
                    return sorted(entry.path for entry in entries)
                found = [
                    self._info(e.path, e.stat(follow_symlinks=False)) for e in entries
                ]
        except NotADirectoryError:
            info = self.info(path)
            return [info] if detail else [info["name"]]
        return sorted(found, key=lambda info: str(info["name"]))

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self.mount.exists(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        return self.mount.path(self._strip_protocol(path)).is_dir()

    def isfile(self, path: str) -> bool:
        return self.mount.path(self._strip_protocol(path)).is_file()

    def islink(self, path: str) -> bool:
        return self.mount.path(self._strip_protocol(path)).is_symlink()

    def created(self, path: str) -> datetime:
        """When it came into being; its last change if that is not remembered."""
        path = self._strip_protocol(path)
        born = self.mount.birthtime_ns(path)
        seconds = self.mount.stat(path).st_ctime if born is None else born / 1e9
        return datetime.fromtimestamp(seconds, UTC)

    def modified(self, path: str) -> datetime:
        found = self.mount.stat(self._strip_protocol(path))
        return datetime.fromtimestamp(found.st_mtime, UTC)

    # ---- content

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> IO[bytes]:
        if not autocommit:
            raise NotImplementedError("tane:// has no transactions")
        if "r" not in mode or "+" in mode:
            self._may_write(path)
        mount = self.mount
        file = mount.open(path, mode)
        _shared.using(mount, file)
        if mode != "rb":
            file.raw.sync_on_close = True  # type: ignore[attr-defined]
        return file

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        path = self._strip_protocol(path)
        if start is None and end is None:
            return self.mount.read_bytes(path)
        with self.mount.open(path, "rb", 0) as file:
            size = file.stat().st_size  # type: ignore[attr-defined]
            first, last, _ = slice(start, end).indices(size)
            return bytes(file.pread(max(last - first, 0), first))  # type: ignore[attr-defined]

    def cat(
        self,
        path: Any,
        recursive: bool = False,
        on_error: str = "raise",
        **kwargs: Any,
    ) -> Any:
        """Many files are read with few calls."""
        paths = self.expand_path(path, recursive=recursive)
        many = len(paths) > 1 or isinstance(path, list)
        if not many and paths[0] == self._strip_protocol(path):
            return self.cat_file(paths[0], **kwargs)
        if recursive:
            paths = [p for p in paths if self.isfile(p)]
        contents = self.mount.read_many(paths, on_error="return")
        result = {}
        for name, content in zip(paths, contents, strict=True):
            if isinstance(content, OSError):
                if on_error == "raise":
                    raise content
                if on_error == "omit":
                    continue
            result[name] = content
        return result

    # ---- changing

    def _may_write(self, path: str) -> None:
        if not self.writable:
            text = "opened for reading: pass the storage option writable=True"
            raise OSError(errno.EROFS, text, path)

    def _changed(self, path: str) -> str:
        path = str(self._strip_protocol(path))
        self._may_write(path)
        return path

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        self.mount.path(self._changed(path)).mkdir(parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.mount.makedirs(self._changed(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.mount.rmdir(self._changed(path))

    def rm_file(self, path: str) -> None:
        self.mount.unlink(self._changed(path))

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(
        self, path: Any, recursive: bool = False, maxdepth: int | None = None
    ) -> None:
        for one in [path] if isinstance(path, str) else path:
            if recursive and maxdepth is None and not _has_magic(one):
                self.mount.rmtree(self._changed(one))
            else:
                self._changed(one)
                super().rm(one, recursive=recursive, maxdepth=maxdepth)

    def mv(
        self,
        path1: str,
        path2: str,
        recursive: bool = False,
        maxdepth: int | None = None,
        **kwargs: Any,
    ) -> None:
        """One call; what has the new name is replaced."""
        self.mount.rename(self._changed(path1), self._changed(path2))

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        to = self._changed(path2)
        if self.isdir(path1):
            self.mount.makedirs(to, exist_ok=True)
            return
        with self.open(path1, "rb") as source, self.open(to, "wb") as new:
            while data := source.read(1 << 20):
                new.write(data)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        path = self._changed(path)
        self.mount.touch(path)
        if truncate:
            self.mount.truncate(path, 0)


def _refused(*_: Any) -> int:
    return -errno.ENOTSUP


def _has_magic(path: str) -> bool:
    return any(c in path for c in "*?[")

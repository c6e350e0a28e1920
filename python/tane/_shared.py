# SPDX-License-Identifier: GPL-2.0-only
"""Images that the file systems of fsspec in this process have in common.

One process may write an image once: a lock keeps others out, and does not know which
file system of which library it belongs to. So all that mean the same image by the same
options use one kernel, and who reads uses the one that writes. Who would write where
others only read has the image closed and opened anew. Mounts of an image that was
closed lead to what is open then, or to the image opened again.
"""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ._address import is_remote
from ._image import Image
from ._mount import Mount
from ._options import Mode

Identity: TypeAlias = "tuple[int, int] | str"

# How an image is served, rather than what is in it.
_SERVED = ("memory", "kernel_image", "memory_limit", "time_limit")


@dataclass(frozen=True)
class Wish:
    """What a file system is to be opened by."""

    image: str
    mode: Mode
    # Arguments of `Image`, and of `Image.mount`.
    options: tuple[tuple[str, Any], ...]
    mount: tuple[tuple[str, Any], ...]

    def option(self, name: str) -> Any:
        return dict(self.options).get(name)

    @property
    def content(self) -> Any:
        """The same for all that mean the same."""
        own = [(k, v) for k, v in self.options if k not in _SERVED]
        return _identity(self.image), tuple(own)

    @property
    def files(self) -> set[Identity]:
        """Of the host; of the layers below nothing is written."""
        overlay = self.option("overlay")
        names = [self.image, *(self.option("with_images") or ())]
        return {_identity(name) for name in [*names, *([overlay] if overlay else [])]}

    @property
    def written(self) -> set[Identity]:
        overlay = self.option("overlay")
        if self.mode == "r" or overlay == ":memory:":
            return set()
        return {_identity(overlay)} if overlay else self.files

    def serves(self, other: Wish) -> bool:
        """Whether what was opened so is what the other one wants."""
        if self.content != other.content:
            return False
        if self.mode == "rw":
            return True
        # Linux has a file system once, by the options of whoever mounted it first.
        how = [
            [pair for pair in w.mount if pair[0] != "selector"] for w in (self, other)
        ]
        return other.mode == "r" and self.options == other.options and how[0] == how[1]


def _identity(name: str) -> Identity:
    """Of a file its own, whatever it is called."""
    if is_remote(name) or name == ":memory:":
        return name
    try:
        found = os.stat(name)
    except OSError:
        return name
    return found.st_dev, found.st_ino


class _Open:
    """The images that are open; those of the parent are of no use after a fork."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.images: weakref.WeakKeyDictionary[Image, Wish] = (
            weakref.WeakKeyDictionary()
        )
        self.mounts: weakref.WeakValueDictionary[Any, Mount] = (
            weakref.WeakValueDictionary()
        )
        # Those that somebody wanted for writing.
        self.written: weakref.WeakSet[Mount] = weakref.WeakSet()
        # Those that are read or written at the moment.
        self.files: weakref.WeakKeyDictionary[Any, weakref.WeakSet[Any]] = (
            weakref.WeakKeyDictionary()
        )

    def all(self) -> Iterator[tuple[Image, Wish]]:
        for image, wish in list(self.images.items()):
            if image._handle is not None:
                yield image, wish


_open = _Open()


def _in_child() -> None:
    global _open
    _open = _Open()


os.register_at_fork(after_in_child=_in_child)


def mounted(wish: Wish) -> Mount:
    """The file system, of an image that is open already if that will do."""
    state = _open
    with state.lock:
        image = next((i for i, known in state.all() if known.serves(wish)), None)
        if image is None:
            _make_room(wish)
            image = Image(wish.image, mode=wish.mode, **dict(wish.options))
            state.images[image] = wish
        key = (id(image), wish.mount)
        mount = state.mounts.get(key)
        if mount is None or mount._handle is None:
            try:
                mount = image.mount(**dict(wish.mount))
            except BaseException:
                _close_unused(image)
                raise
            mount._successor = _Successor(wish)
            state.mounts[key] = mount
        if wish.mode == "rw":
            state.written.add(mount)
        return mount


class _Successor:
    """Where a mount leads when somebody has closed its image: others read by it."""

    def __init__(self, wish: Wish) -> None:
        self.wish = Wish(wish.image, "r", wish.options, wish.mount)
        self.mount: Mount | None = None

    def __call__(self) -> Mount:
        with _open.lock:
            if self.mount is None or self.mount._handle is None:
                self.mount = mounted(self.wish)
            return self.mount


def using(mount: Mount, file: Any) -> None:
    """A file is open, as long as it is not closed or forgotten."""
    with _open.lock:
        files = _open.files.setdefault(mount.image, weakref.WeakSet())
        files.add(file)


def close(mount: Mount) -> None:
    """Unmount it, and close its image if nothing else of that is mounted, or all of it
    is only read and it was opened to be written."""
    with _open.lock:
        try:
            mount.close()
        finally:
            _close_unused(mount.image)


def _close_unused(image: Any) -> None:
    mounts = [mount for mount in image._mounts if mount._handle is not None]
    if image.mode == "rw":
        mounts = [mount for mount in mounts if mount in _open.written]
    if not mounts:
        image.close()


def _make_room(wish: Wish) -> None:
    """Close what is only read of the files that are to be written."""
    written = wish.written
    for image, known in _open.all():
        if known.mode == "rw" or not written & known.files:
            continue
        if _is_read(image):
            text = "files in it are open for reading: close them, and then write"
            raise OSError(errno.EBUSY, text, wish.image)
        image.close()


def _is_read(image: Image) -> bool:
    def now() -> bool:
        return any(not file.closed for file in _open.files.get(image, ()))

    # Some may only wait for the garbage collector.
    return now() and (gc.collect() >= 0 and now())


@atexit.register
def _close_all() -> None:
    for image, _ in _open.all():
        for mount in image._mounts:
            mount._successor = None
        try:
            image.close()
        except OSError as error:
            print(f"tane://{image.path}: {error}", file=sys.stderr)

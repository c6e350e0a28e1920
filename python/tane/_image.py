# SPDX-License-Identifier: GPL-2.0-only
"""Images and what is in them."""

from __future__ import annotations

import errno
import os
import warnings
import weakref
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, Unpack

from ._address import Address, is_remote
from ._closing import Closing, closed_first
from ._errors import SelectorError, fail, forks, message
from ._kernel import Kernel
from ._mount import Mount, mount_options
from ._options import ImageOptions, Mode, StrPath, image_options
from ._tane import ffi, lib

Selector: TypeAlias = "str | int"
Kind: TypeAlias = Literal[
    "disk", "partition", "luks", "logical", "raid", "verity", "bitlocker"
]

_KINDS: tuple[Kind, ...] = (
    "disk",
    "partition",
    "luks",
    "logical",
    "raid",
    "verity",
    "bitlocker",
)


@dataclass(frozen=True)
class Volume:
    """A place in an image where a file system can be."""

    kind: Kind
    selector: str | None
    """What `Image.mount` takes; None for a whole disk."""
    partition: int | None
    """Its number in the table, from 1."""
    start: int
    """Of a partition: where it starts on its disk."""
    size: int
    fstype: str | None
    """What is on it, as blkid(8) calls it; None if nothing known."""
    label: str | None
    uuid: str | None
    """Of the file system, else of the volume."""
    name: str | None
    """In a GPT, of a logical volume ("group/name"), of a RAID set."""
    mountable: bool
    """Whether a file system is on it, rather than a container or nothing."""
    locked: bool
    """It is encrypted, and no passphrase that was given opens it."""
    note: str | None
    """Why nothing that lies on it is shown, though something may."""


def _volume(raw: Any) -> Volume:
    def text(field: Any) -> str | None:
        return ffi.string(field).decode("utf-8", "replace") or None

    return Volume(
        kind=_KINDS[raw.kind],
        selector=text(raw.selector),
        partition=raw.partition or None,
        start=raw.start,
        size=raw.length,
        fstype=text(raw.type),
        label=text(raw.label),
        uuid=text(raw.uuid),
        name=text(raw.name),
        mountable=bool(raw.flags & lib.TANE_VOLUME_MOUNTABLE),
        locked=bool(raw.flags & lib.TANE_VOLUME_LOCKED),
        note=text(raw.note),
    )


@ffi.def_extern()  # type: ignore[untyped-decorator]
def tane_py_notice(arg: Any, text: Any, length: int) -> None:
    """Called by the library while it opens an image."""
    ffi.from_handle(arg).append(ffi.unpack(text, length).decode("utf-8", "replace"))


def selected(selector: Selector) -> str:
    """As the library takes it; a number is that of a partition."""
    if isinstance(selector, bool) or not isinstance(selector, (int, str)):
        raise TypeError(f"a selector is a str or an int, not {selector!r}")
    return str(selector)


class Image(Closing):
    """An image, with everything in it that a file system can be on.

    Its container (raw, qcow2, VMDK, VHD, VHDX, VDI and so on) is told by its
    content; partitions, LUKS, BitLocker, LVM2, RAID and btrfs on several disks are
    put together as the command does it.

    mode          "r": no byte of the image changes. "rw" locks it and writes.
    jail          True: Linux runs in a process of its own, in a jail: code that a
                  hostile image gets to run there can open no file, connect to
                  nothing and start no program. False: in this process, for system
                  calls (`Kernel.syscall`). None: True, unless there is a `kernel`.
    kernel        the kernel in this process that serves it; else a new one
    kernel_image  what the new one boots; else $TANE_IMAGE, or that of this package
    memory        what the new one has, in bytes; else 256 MiB
    memory_limit  of the jail: private memory beside that, in bytes; else 4 GiB
    time_limit    of the jail: after so many seconds it is killed, and what was not
                  synced is lost; else never
    options       how it is opened: see `ImageOptions`

    image is a file, or an address on a server; "IMAGE@SELECTOR" says which file system
    `mount` mounts, and "OUTER:/IMAGE" is an image that is a file in another one.
    """

    def __init__(
        self,
        image: StrPath,
        *,
        mode: Mode = "r",
        jail: bool | None = None,
        kernel: Kernel | None = None,
        kernel_image: StrPath | None = None,
        memory: int | None = None,
        memory_limit: int | None = None,
        time_limit: float | None = None,
        **options: Unpack[ImageOptions],
    ) -> None:
        keep: list[Any] = []
        given = image_options(mode, options, keep)
        self._handle: Any = None
        self._forks = forks()
        self._mounts: weakref.WeakSet[Mount] = weakref.WeakSet()
        self.path = os.fspath(image)
        self.mode: Mode = mode
        address = Address.parse(self.path)
        if address is not None and not is_remote(address.image):
            # Says what is wrong before a kernel is booted for it.
            os.stat(address.image)
        self._owns_kernel = kernel is None
        jail = kernel is None if jail is None else jail
        if kernel is not None:
            if jail or kernel_image is not None or memory is not None:
                raise ValueError("a kernel that is given is there, and in no jail")
            if kernel._forks != forks():
                fail(errno.ENOTSUP, self.path, made=kernel._forks)
        if not jail and (memory_limit is not None or time_limit is not None):
            raise ValueError("only a jail has limits")
        if not jail and kernel is None:
            kernel = Kernel(image=kernel_image, memory=memory)
        if jail:
            worker = ffi.new("struct tane_worker_options *")
            worker.size = ffi.sizeof("struct tane_worker_options")
            worker.memory = memory or 0
            worker.interrupted = lib.tane_py_interrupted
            worker.memory_limit = memory_limit or 0
            if time_limit is not None:
                worker.milliseconds = max(1, round(time_limit * 1000))
            if kernel_image is not None:
                keep.append(ffi.new("char[]", os.fsencode(kernel_image)))
                worker.image = keep[-1]
            keep.append(worker)
            given.worker = worker
        notices: list[str] = []
        given.notice_arg = notice_arg = ffi.new_handle(notices)
        given.notice = lib.tane_py_notice
        keep.append(notice_arg)
        to = ffi.new("struct tane_image **")
        serves = ffi.NULL if kernel is None else kernel._get()
        answer = lib.tane_image_open(serves, os.fsencode(self.path), given, to)
        if answer < 0:
            made = None if kernel is None else kernel._forks
            fail(-answer, self.path, message(), made=made)
        self._handle = ffi.gc(to[0], lib.tane_image_close)
        self.kernel = Kernel._of_image(self._handle) if kernel is None else kernel
        self.kernel._images.add(self)
        for notice in notices:
            warnings.warn(f"{self.path}: {notice}", stacklevel=2)

    def _get(self) -> Any:
        """The handle, to be passed on at once: it is closed with its last reference,
        and a variable lives as long as the traceback of an exception."""
        handle = self._handle
        if handle is None:
            raise ValueError("the image is closed")
        return handle

    @property
    def worker(self) -> int | None:
        """The process that serves it, if it is jailed: its id."""
        return int(lib.tane_image_worker(self._get())) or None

    @property
    def volumes(self) -> list[Volume]:
        """Everything that a file system can be on."""
        count = 16
        while True:
            array = ffi.new("struct tane_volume[]", count)
            for at in range(count):
                array[at].size = ffi.sizeof("struct tane_volume")
            answer = lib.tane_image_volumes(self._get(), array, count)
            if answer < 0:
                fail(-answer, self.path, message(), made=self._forks)
            if answer <= count:
                return [_volume(array[at]) for at in range(answer)]
            count = answer

    def mount(
        self,
        selector: Selector | None = None,
        *,
        fstype: str | None = None,
        options: str = "",
    ) -> Mount:
        """The files of the file system that the selector means.

        selector is a partition number (2 or "2"), "label=NAME", "uuid=UUID",
        "GROUP/VOLUME" or "subvol=PATH"; None: the only file system in it. fstype
        and options are those of mount(8).

        SelectorError: none fits, or several do: its `choices` are the volumes.
        LockedError: it is encrypted. ValueError: not a selector.
        """
        if selector is not None:
            selector = selected(selector)
        raw, _keep = mount_options(fstype, options)
        name = ffi.NULL if selector is None else ffi.new("char[]", selector.encode())
        to = ffi.new("struct tane_mount **")
        answer = lib.tane_image_mount(self._get(), name, raw, to)
        if answer < 0:
            self._refuse(-answer, message())
        mount = Mount(to[0], self, selector)
        self._mounts.add(mount)
        return mount

    def _refuse(self, code: int, text: str) -> None:
        if "not a selector" in text:
            raise ValueError(text)
        # In one line of the library's; the list is in the error's choices.
        text = text.partition("   ")[0]
        try:
            fail(code, self.path, text, made=self._forks)
        except OSError as error:
            if code in (errno.ENXIO, errno.ENOTUNIQ):
                found = SelectorError(*error.args[:2], self.path)
                found.choices = self.volumes
                names = [v.selector for v in found.choices if v.selector]
                found.strerror = f"{text}: " + (", ".join(names) or "nothing in it")
                raise found from None
            raise

    def close(self) -> None:
        """Unmount what was mounted, and close it. Twice does nothing.

        The first error of unmounting is raised, when all is closed.
        """
        with closed_first(self._mounts):
            self._handle = None
            if self._owns_kernel:
                # Whoever still holds on to a file of it does not hold the kernel.
                self.kernel._handle = None

    def __repr__(self) -> str:
        return f"<tane.Image {self.path!r} mode={self.mode!r}>"


def open(
    image: StrPath,
    selector: Selector | None = None,
    mode: Mode = "r",
    *,
    jail: bool | None = None,
    kernel: Kernel | None = None,
    kernel_image: StrPath | None = None,
    memory: int | None = None,
    memory_limit: int | None = None,
    time_limit: float | None = None,
    fstype: str | None = None,
    options: str = "",
    **how: Unpack[ImageOptions],
) -> Mount:
    """Open an image and mount a file system in it, in one step.

    `image` may have the selector in it, as in "disk.qcow2@2", and be an image that is a
    file in another one, as in "outer.img:/disk.qcow2". The other arguments are those of
    `Image` and `Image.mount`. Closing the mount closes the image, and
    ends the kernel if none was given. That one runs jailed, in a process of its own,
    unless `jail` is False.

    >>> with tane.open("disk.img", mode="rw") as mount:
    ...     (mount / "etc/hostname").write_text("example\\n")
    """
    path = os.fspath(image)
    address = Address.parse(path) if selector is None else None
    if address is not None and address.path == "/":
        path, selector = address.image, address.selector
    opened = Image(
        path,
        mode=mode,
        jail=jail,
        kernel=kernel,
        kernel_image=kernel_image,
        memory=memory,
        memory_limit=memory_limit,
        time_limit=time_limit,
        **how,
    )
    try:
        mount = opened.mount(selector, fstype=fstype, options=options)
    except BaseException:
        # Whoever keeps the error does not keep the image.
        opened.close()
        raise
    mount._owns_image = True
    return mount

# SPDX-License-Identifier: GPL-2.0-only
"""Images of the files of a directory or an archive."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from ._copy import Told, warn
from ._errors import fail, message, raise_kept
from ._progress import Progress
from ._tane import ffi, lib

_Path: TypeAlias = "str | bytes | os.PathLike[Any]"


class Made(NamedTuple):
    """An image that was made."""

    size: int
    """Of the disk, in bytes."""
    uuid: str
    """The file system's."""
    epoch: int
    """The time that it was for its Linux, in seconds since 1970."""
    files: int
    bytes: int
    """Of data; holes have none."""


class _Strings:
    """C's strings, as long as this is there."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def one(self, text: _Path | None) -> Any:
        if text is None:
            return ffi.NULL
        name = os.fsencode(text)
        if b"\0" in name:
            raise ValueError("embedded null byte")
        self._kept.append(ffi.new("char[]", name))
        return self._kept[-1]

    def several(self, names: Iterable[_Path]) -> Any:
        ended = [*(self.one(name) for name in names), ffi.NULL]
        self._kept.append(ffi.new("const char *[]", ended))
        return self._kept[-1]


def make_image(
    source: _Path,
    image: _Path,
    *,
    fs: str | None = None,
    size: int | None = None,
    label: str | None = None,
    uuid: str | None = None,
    partition_table: str | None = None,
    format: str | None = None,
    compression: str | None = None,
    owner: str = "keep",
    reference: str | None = None,
    options: str | None = None,
    layers: Iterable[_Path] = (),
    metadata: Iterable[_Path] = (),
    xattrs: Iterable[_Path] = (),
    selinux: Iterable[_Path] = (),
    epoch: int | None = None,
    all_times: bool = False,
    sector_size: int | None = None,
    force: bool = False,
    strict: bool = False,
    callback: Progress | None = None,
) -> Made:
    """Make an image with a file system of the files of `source`: a directory, a tar
    archive or a container image, ext4 unless `fs` says another; or the disk with
    several partitions that a file NAME.toml describes. The same input gives the same
    bytes, those of `tane make-image`, whose options the arguments are (docs/cli.md).
    Its mkfs is run, and a kernel in this process writes the files, without a jail.

    The image appears under its name when it is complete, and not at all if this raises.
    What had to be left behind is a LossWarning, or a LossError if `strict`. The image
    is there when a warning comes, also where warnings are errors: `strict` is what
    keeps an image from being made that lacks something.

    Raises:
        FileExistsError: the image is there; `force` replaces it.
        FileNotFoundError: the source is not there, or a program of the host is missing.
        ValueError: an argument makes no sense.
        OSError: a file could not be read or written (the first of them).
    """
    for what, number in (("size", size), ("sector_size", sector_size)):
        if number is not None and number <= 0:
            raise ValueError(f"{what} must be positive: {number}")
    told = Told(callback)
    handle, strings = ffi.new_handle(told), _Strings()
    raw = ffi.new("struct tane_make_options *")
    raw.size = ffi.sizeof("struct tane_make_options")
    flags = (
        (strict, lib.TANE_MAKE_STRICT),
        (force, lib.TANE_MAKE_FORCE),
        (all_times, lib.TANE_MAKE_ALL_TIMES),
        (epoch is not None, lib.TANE_MAKE_EPOCH),
    )
    raw.flags = sum(flag for wanted, flag in flags if wanted)
    raw.image_size, raw.sector_size = size or 0, sector_size or 0
    raw.epoch = epoch or 0
    raw.fs, raw.label, raw.uuid = map(strings.one, (fs, label, uuid))
    raw.partition_table, raw.format = map(strings.one, (partition_table, format))
    raw.compression, raw.owner = map(strings.one, (compression, owner))
    raw.reference, raw.options = map(strings.one, (reference, options))
    raw.layers, raw.metadata = map(strings.several, (layers, metadata))
    raw.xattrs, raw.selinux = map(strings.several, (xattrs, selinux))
    raw.progress = lib.tane_py_progress
    raw.loss, raw.failure = lib.tane_py_lost, lib.tane_py_failed
    raw.arg = handle
    made = ffi.new("struct tane_made *")
    made.size = ffi.sizeof("struct tane_made")
    answer = lib.tane_make_image(strings.one(source), strings.one(image), raw, made)
    said = message() if answer < 0 else ""
    raise_kept()
    if told.raised is not None:
        raise told.raised
    if answer < 0 and not (strict and told.losses):
        name = source if answer == -errno.ENOENT else image
        fail(-answer, os.fspath(name), said or None)
    warn(told, strict, 3)
    uuid = ffi.string(made.uuid).decode()
    return Made(made.image_size, uuid, made.epoch, made.files, made.bytes)

# SPDX-License-Identifier: GPL-2.0-only
"""How an image is opened: struct tane_image_options, as keywords."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from ._tane import ffi, lib

StrPath: TypeAlias = "str | os.PathLike[str]"
Mode: TypeAlias = Literal["r", "rw"]
Secret: TypeAlias = "str | bytes"


class ImageOptions(TypedDict, total=False):
    """How an image is opened, beside its mode; keywords of `Image`, `open` and
    `fs.TaneFileSystem`."""

    format: str | None
    """What it is, if its content should not tell: "raw", "qcow2", …"""
    overlay: StrPath | None
    """Put what is written into this qcow2 file; ":memory:" forgets it."""
    trust: Iterable[StrPath]
    """Files and directories that it may name as backing file or extents."""
    with_images: Iterable[StrPath]
    """Further images of the same machine, or the one with its hashes."""
    lower: Iterable[StrPath]
    """Images below this one, the topmost first, each as IMAGE or IMAGE@SELECTOR: the
    files of all are seen as one, by overlayfs, for reading."""
    passphrase: Secret | Sequence[Secret]
    """Of LUKS and BitLocker volumes, and of an image that is encrypted as a whole: one,
    or several; bytes for the content of a key file."""
    verity: str | None
    """The root hash, in hexadecimal digits, of what dm-verity is to check; with
    ",offset=BYTES" if the hashes are behind the data."""
    sector_size: int | None
    """The sectors of the disk, if they are not 512 bytes."""


def _list(names: Iterable[StrPath], keep: list[Any]) -> Any:
    """A list of C strings that ends with a NULL; `keep` holds them."""
    strings = [ffi.new("char[]", os.fsencode(name)) for name in names]
    array = ffi.new("char *[]", [*strings, ffi.NULL])
    keep += [*strings, array]
    return ffi.cast("const char *const *", array)


def _secrets(given: Secret | Sequence[Secret], keep: list[Any]) -> tuple[Any, int]:
    if isinstance(given, (str, bytes)):
        given = [given]
    secrets = [s.encode() if isinstance(s, str) else s for s in given]
    if not secrets:
        return ffi.NULL, 0
    array = ffi.new("struct tane_secret[]", len(secrets))
    for at, secret in enumerate(secrets):
        keep.append(ffi.new("char[]", secret))
        array[at].data, array[at].len = keep[-1], len(secret)
    keep.append(array)
    return array, len(secrets)


def taken(keywords: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Takes the options away from other keywords: what they say, to be compared."""
    said = {}
    for name in ImageOptions.__annotations__:
        value = keywords.pop(name, None)
        if name == "passphrase" and isinstance(value, (str, bytes)):
            value = (value,)
        if value is not None and not isinstance(value, (str, bytes, int, os.PathLike)):
            value = tuple(value)
        if value:
            said[name] = value
    return tuple(said.items())


def image_options(mode: Mode, options: ImageOptions, keep: list[Any]) -> Any:
    """The structure; `keep` holds what it points to."""
    unknown = options.keys() - ImageOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"there is no option {min(unknown)!r}")
    if mode not in ("r", "rw"):
        raise ValueError(f'mode is "r" or "rw", not {mode!r}')

    def text(value: StrPath | None) -> Any:
        if value is None:
            return ffi.NULL
        keep.append(ffi.new("char[]", os.fsencode(value)))
        return keep[-1]

    raw = ffi.new("struct tane_image_options *")
    raw.size = ffi.sizeof("struct tane_image_options")
    raw.flags = lib.TANE_IMAGE_WRITE if mode == "rw" else 0
    raw.format = text(options.get("format"))
    raw.overlay = text(options.get("overlay"))
    raw.trust = _list(options.get("trust", ()), keep)
    setattr(raw, "with", _list(options.get("with_images", ()), keep))
    raw.lower = _list(options.get("lower", ()), keep)
    secrets = _secrets(options.get("passphrase", ()), keep)
    raw.secrets, raw.secret_count = secrets
    raw.verity = text(options.get("verity"))
    raw.sector_size = options.get("sector_size") or 0
    return raw

# SPDX-License-Identifier: GPL-2.0-only
"""Names of users and groups: those of the image, never those of the host."""

from __future__ import annotations

import errno
import io
import os
from typing import TYPE_CHECKING, Literal

from ._file import RawFile

if TYPE_CHECKING:
    from ._mount import Mount

# No image's passwd is longer than this; a hostile one might be.
_LIMIT = 4 << 20

_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR)


def name_of(mount: Mount, database: Literal["passwd", "group"], number: int) -> str:
    """The first name that the image's /etc/`database` has for this number.

    KeyError: it has none, as pathlib's owner() and group() say it.
    """
    for line in _content(mount, f"/etc/{database}").split(b"\n"):
        name, *fields = line.split(b":")
        if name and len(fields) >= 2 and fields[1] == str(number).encode():
            return os.fsdecode(name)
    raise KeyError(f"{number} is not in the image's /etc/{database}")


def _content(mount: Mount, path: str) -> bytes:
    # It might be a fifo, and nobody would ever write to it.
    flags = os.O_RDONLY | os.O_NONBLOCK
    try:
        with RawFile(mount, path, flags, 0) as file:
            return bytes(io.BufferedReader(file).read(_LIMIT))
    except OSError as error:
        if error.errno in _ABSENT:
            return b""
        raise

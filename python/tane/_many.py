# SPDX-License-Identifier: GPL-2.0-only
"""Many files at once. What is done for each file is done by loops in C."""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Iterable
from itertools import accumulate, count
from operator import add
from typing import TYPE_CHECKING, Any

from ._errors import fail
from ._file import RawFile
from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._calls import Name
    from ._mount import Mount

# What is read at once, in bytes: it stays in the processor's cache until it is cut up.
_BATCH = 1 << 20

_new_as_it_is = ffi.new_allocator(should_clear_after_alloc=False)


class _Paths:
    """Paths as C wants them."""

    def __init__(self, mount: Mount, paths: Iterable[Name]) -> None:
        given = list(paths)
        self.texts: Any = given
        if not set(map(type, given)) <= {str}:
            self.texts = [mount._text(path) for path in given]
        joined = os.fsencode("\0".join(self.texts))
        names = joined.split(b"\0")
        if len(names) != max(len(given), 1):
            raise ValueError("embedded null byte")
        self._names = ffi.from_buffer("char[]", joined + b"\0")
        base = int(ffi.cast("uintptr_t", self._names))
        # Each has the names before it ahead, and a NUL for each of these.
        before = accumulate(map(len, names[:-1]), initial=base)
        self._places = array("Q", map(add, before, count()))
        self.pointers = ffi.from_buffer("const char *[]", self._places)

    def __len__(self) -> int:
        return len(self.texts)


def read_many(mount: Mount, paths: Iterable[Name], strict: bool) -> list[Any]:
    """The content of each; or, unless `strict`, the error in its place."""
    names = _Paths(mount, paths)
    lengths = ffi.new("int64_t[]", len(names))
    size = _BATCH if len(names) > 1 else 4096
    room = _new_as_it_is("char[]", size)
    results: list[bytes | OSError] = []
    while len(results) < len(names):
        done = len(results)
        left = len(names) - done
        got = lib.tane_read_files(
            mount._get(), names.pointers + done, left, room, size, lengths
        )
        if got < 0:
            fail(-got, made=mount._forks)
        if got == 0:
            results.append(_too_long(mount, names.texts[done], strict))
            continue
        some = ffi.unpack(lengths, got)
        failed = []
        if min(some) < 0:
            failed = [(at, -n) for at, n in enumerate(some) if n < 0]
        for at, code in failed:
            if strict:
                fail(code, names.texts[done + at], made=mount._forks)
            some[at] = 0
        # Not by its function, which would remember the format.
        cut = struct.Struct("%ds" * got % tuple(some))
        results += cut.unpack_from(ffi.buffer(room))
        for at, code in failed:
            results[done + at] = _error(mount, code, names.texts[done + at])
    return results


def _error(mount: Mount, code: int, path: str) -> OSError:
    try:
        fail(code, path, made=mount._forks)
    except OSError as error:
        return error


def _too_long(mount: Mount, path: str, strict: bool) -> bytes | OSError:
    """One that the room is too small for."""
    try:
        with RawFile(mount, path, os.O_RDONLY, 0) as file:
            return file.readall()
    except OSError as error:
        if strict:
            raise
        return error

# SPDX-License-Identifier: GPL-2.0-only
"""How the methods of a mount call the library."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ._errors import fail
from ._path import TanePath
from ._tane import lib

if TYPE_CHECKING:
    from pathlib import PurePosixPath

Name: TypeAlias = "str | PurePosixPath | TanePath"


class Calls:
    """A mount's handle, and calls by path with it."""

    _handle: Any
    _forks: int
    # Of a mount that was closed to be opened otherwise: what took its place.
    _successor: Callable[[], Calls] | None = None

    def _get(self) -> Any:
        """The handle, to be passed on at once: close() waits for those who hold it,
        and a variable lives as long as the traceback of an exception."""
        handle = self._handle
        if handle is None:
            if self._successor is not None:
                return self._successor()._get()
            raise ValueError("the mount is closed")
        return handle

    def _text(self, path: Name) -> str:
        if isinstance(path, TanePath) and path.mount is not self:
            raise ValueError(f"{path!r}: a path of another mount")
        return str(path)

    def _name(self, path: Name) -> bytes:
        """A path as C wants it."""
        name = os.fsencode(self._text(path))
        if b"\0" in name:
            raise ValueError("embedded null byte")
        return name + b"\0"

    def _do(self, call: Any, path: Name, *args: Any) -> int:
        answer = call(self._get(), self._name(path), *args)
        if answer < 0:
            fail(-answer, str(path), made=self._forks)
        return int(answer)


def nofollow(path: Name, follow_symlinks: bool) -> int:
    # What has no last name, such as "/", is no link.
    nameless = not str(path).strip("/.")
    return 0 if follow_symlinks or nameless else int(lib.TANE_NOFOLLOW)

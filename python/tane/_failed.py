# SPDX-License-Identifier: GPL-2.0-only
"""What a copy leaves out: one file costs itself, and all that is missing is named."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

# Small things in a row for which there is no room: there is none at all, if the file
# system says so too.
_FULL = 32
# What is left of one that is full, in bytes.
_REST = 256 << 10
SMALL = 4096

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EIO}
# Nothing can be written any more.
_OVER = {errno.EROFS, errno.ESHUTDOWN, errno.ENOTSUP}


class LossWarning(UserWarning):
    """A copy left something behind."""


class LossError(OSError):
    """A strict copy ended where it would have left something behind."""


class CopyError(OSError):
    """Files of a tree were not copied; the others were.

    The errno is the first one's.
    """

    errors: list[tuple[str, OSError]]
    """Each of them: its path below what was copied, and why."""
    stopped: bool
    """The destination was full, or failed: what came after that was not tried."""

    def __init__(self, errors: list[tuple[str, OSError]], stopped: bool) -> None:
        shown = [f"{path}: {error.strerror}" for path, error in errors[:10]]
        if len(errors) > len(shown):
            shown.append(f"{len(errors) - len(shown)} more in `errors`")
        text = f"{len(errors)} not copied: {'; '.join(shown)}"
        super().__init__(errors[0][1].errno, text)
        self.errors = errors
        self.stopped = stopped


class Failed:
    """What was not copied so far."""

    def __init__(self, free: Callable[[], int]) -> None:
        self.errors: list[tuple[str, OSError]] = []
        self.stopped: OSError | None = None
        self._free = free
        self._short = False
        self._in_a_row = 0

    def add(self, path: str, error: OSError, small: bool) -> None:
        self.errors.append((path, error))
        if error.errno in _NO_ROOM:
            self._short = True
            self._in_a_row += small
        full = self._in_a_row >= _FULL and self._free() <= _REST
        if full or error.errno in _OVER:
            self.stopped = error

    def omit(self, path: str) -> None:
        """It was not tried."""
        number = (self.stopped and self.stopped.errno) or errno.ENOENT
        why = f"not tried: {os.strerror(number)}" if self.stopped else "not tried"
        self.errors.append((path, OSError(number, why, path)))

    def succeed(self) -> None:
        self._in_a_row = 0

    def expect_room(self, size: int) -> None:
        """Where room was short before, a large file is not begun in vain."""
        if self._short and size > SMALL and size > self._free():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end(self) -> None:
        if self.errors:
            raise CopyError(self.errors, self.stopped is not None)

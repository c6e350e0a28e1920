# SPDX-License-Identifier: GPL-2.0-only
"""Checkpoints of a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._closing import Closing
from ._errors import fail, message
from ._tane import ffi, lib

if TYPE_CHECKING:
    from types import TracebackType

    from ._kernel import Kernel


class Checkpoint(Closing):
    """A state of a kernel that it can go back to; of `Kernel.checkpoint`.

    As a context it goes back at the end of it, whether or not there was an exception,
    and is forgotten then. `Kernel.rollback` goes back to it at any other time. It
    keeps the kernel's memory alive until it is closed. Any thread may use it; one that
    closes it waits for none that is going back.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._handle: Any = None
        self.kernel = kernel
        to = ffi.new("struct tane_checkpoint **")
        answer = lib.tane_checkpoint(kernel._get(), to)
        if answer < 0:
            fail(-answer, None, message(), made=kernel._forks)
        self._handle = ffi.gc(to[0], lib.tane_checkpoint_close)

    def _get(self) -> Any:
        handle = self._handle
        if handle is None:
            raise ValueError("the checkpoint is closed")
        return handle

    def close(self) -> None:
        """Forget the state; the kernel stays as it is. Twice does nothing."""
        self._handle = None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._handle is not None:
                self.kernel.rollback(self)
        finally:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self._handle is None else "kept"
        return f"<tane.Checkpoint of {self.kernel!r}, {state}>"

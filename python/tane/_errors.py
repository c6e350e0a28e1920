# SPDX-License-Identifier: GPL-2.0-only
"""Errors: OSErrors with errno and filename; some have classes of their own."""

from __future__ import annotations

import errno
import os
import threading
from typing import TYPE_CHECKING, Any, NoReturn

from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._image import Volume


class KernelError(OSError):
    """The kernel has died or was halted (ESHUTDOWN): `Kernel.last_words` says why, or
    the text, if it is the process of a jailed kernel that has ended."""


class ForkError(OSError):
    """This process is a fork of the one that opened it (ENOTSUP)."""


class LockedError(OSError):
    """An encrypted volume is locked (ENOKEY): pass its passphrase."""


class SelectorError(OSError):
    """No file system, or several, fit the selector (ENXIO, ENOTUNIQ)."""

    choices: list[Volume]
    """The volumes that there are."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.choices = []


_SPECIAL: dict[int, type[OSError]] = {
    errno.ESHUTDOWN: KernelError,
    errno.ENOKEY: LockedError,
    errno.ENOTUNIQ: SelectorError,
}

_FORKED = (
    "opened by the parent of this process, and a fork cannot use its parent's "
    "kernels: open it here, or use multiprocessing's spawn"
)

# How many forks lie between this process and the import.
_forks = 0


def _in_child() -> None:
    global _forks
    _forks += 1


os.register_at_fork(after_in_child=_in_child)


def forks() -> int:
    """To be kept by what belongs to one process only."""
    return _forks


class _Raised(threading.local):
    """What a signal's handler raised while a call of this thread was waiting."""

    error: BaseException | None = None


_raised = _Raised()


def _keep(_kind: object, error: BaseException, _trace: object) -> None:
    _raised.error = error


@ffi.def_extern(error=1, onerror=_keep)  # type: ignore[untyped-decorator]
def tane_py_interrupted(_arg: Any) -> int:
    """Called by the library while it waits for a worker. The interpreter runs the
    handlers of signals when it enters a function, so here, in the main thread; what
    they raise ends the call."""
    return 0


def has_kept() -> bool:
    """Whether a signal's handler has ended a call of this thread."""
    return _raised.error is not None


def raise_kept() -> None:
    """Raise what ended the call that was just made, if a signal's handler did."""
    error, _raised.error = _raised.error, None
    try:
        if error is not None:
            raise error
    finally:
        # Its traceback has this frame: both, and all that the frames below hold, would
        # stay until the garbage collector comes.
        del error


def message() -> str:
    """What the library says of this thread's last failure."""
    return str(ffi.string(lib.tane_error_message()).decode("utf-8", "replace"))


def fail(
    code: int,
    filename: object = None,
    text: str | None = None,
    filename2: object = None,
    made: int | None = None,
) -> NoReturn:
    """Raise what fits an errno. `made`: what forks() was when the handle was made."""
    if code == errno.EINTR:
        raise_kept()
    if code == errno.ENOTSUP and made is not None and made != _forks:
        raise ForkError(code, _FORKED, filename)
    if text is None:
        text = os.strerror(code)
        if code == errno.ESHUTDOWN:
            # A worker's end says more; what the host calls it is about sockets.
            said = message()
            jailed = said.startswith("the jailed kernel has ended")
            text = said if jailed else "the kernel has ended"
    kind = _SPECIAL.get(code, OSError)
    raise kind(code, text, filename, None, filename2)

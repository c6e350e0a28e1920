# SPDX-License-Identifier: GPL-2.0-only
"""Copies between a mount and the host, by the library's engine."""

from __future__ import annotations

import errno
import os
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

from ._errors import fail, forks, has_kept, message, raise_kept
from ._failed import CopyError, LossError, LossWarning
from ._progress import Progress
from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._mount import Mount

# What whole trees lose is told of one file for all; else of so many.
_ONCE = ("owner", "mode", "exact times")
_SHOWN = 10
# What a file is, rather than has.
_KINDS = ("symlink", "device node", "fifo or socket")


class Told:
    """What the library says of one copy, or of one image that is made."""

    def __init__(self, callback: Progress | None) -> None:
        self.callback = callback
        self.raised: BaseException | None = None
        self.last = (0, 0)
        self.losses: list[tuple[str, str, int]] = []
        self.failures: list[tuple[str, str, int]] = []


def _stop(_kind: object, error: BaseException, trace: Any) -> None:
    """An exception in a callback, or one of a signal's handler that ran there."""
    told = ffi.from_handle(trace.tb_frame.f_locals["arg"]) if trace else None
    if told is not None and told.raised is None:
        told.raised = error


@ffi.def_extern(error=1, onerror=_stop)  # type: ignore[untyped-decorator]
def tane_py_progress(
    arg: Any, _files: int, done: int, _total_files: int, total: int
) -> int:
    told = ffi.from_handle(arg)
    if told.raised is None and told.callback is not None:
        told.last = (done, max(done, total))
        told.callback(*told.last)
    return told.raised is not None or has_kept()


def _text(of: Any) -> str:
    return os.fsdecode(ffi.string(of))


@ffi.def_extern()  # type: ignore[untyped-decorator]
def tane_py_lost(arg: Any, path: Any, what: Any, error: int) -> None:
    ffi.from_handle(arg).losses.append((_text(path), _text(what), error))


@ffi.def_extern()  # type: ignore[untyped-decorator]
def tane_py_failed(arg: Any, path: Any, why: Any, error: int) -> None:
    ffi.from_handle(arg).failures.append((_text(path), _text(why), error))


def _said(what: str) -> str:
    """In a sentence: "its owner was", "it (a symlink) was"."""
    kind = next((kind for kind in _KINDS if what.startswith(kind)), None)
    if kind:
        return f"it (a {kind}) was"
    for plain in ("extended attribute ", "project ", "flags "):
        if what.startswith(plain):
            return f"{what.removeprefix('extended attribute ')} was"
    return f"its {what} {'were' if what.endswith('times') else 'was'}"


def warn(told: Told, strict: bool, level: int = 4) -> None:
    """Say what was left behind; `level`: which caller from here on is told."""
    counts = Counter(what for _, what, _ in told.losses)
    shown: Counter[str] = Counter()
    for path, what, number in told.losses:
        text = f"{path or '.'}: {_said(what)} left behind: {os.strerror(number)}"
        if strict:
            raise LossError(number, text, path)
        most = 1 if what in _ONCE else _SHOWN
        shown[what] += 1
        if shown[what] > most:
            continue
        more = counts[what] - most
        if shown[what] == most and more > 0:
            text += f" (and so of {more} more)"
        warnings.warn(text, LossWarning, stacklevel=level)


def _copy(
    mount: Mount,
    call: Any,
    source: str,
    to: str,
    callback: Progress | None,
    strict: bool,
) -> None:
    told = Told(callback)
    handle = ffi.new_handle(told)
    options = ffi.new("struct tane_copy_options *")
    options.size = ffi.sizeof("struct tane_copy_options")
    options.flags = lib.TANE_COPY_DEVICES | (lib.TANE_COPY_STRICT if strict else 0)
    # Also without a callback: signals are seen there. This thread, the main one if any
    # is, is asked whichever thread writes.
    options.progress = lib.tane_py_progress
    options.loss, options.failure = lib.tane_py_lost, lib.tane_py_failed
    options.arg = handle
    copied = ffi.new("struct tane_copied *")
    copied.size = ffi.sizeof("struct tane_copied")
    names = [os.fsencode(name) for name in (source, to)]
    if any(b"\0" in name for name in names):
        raise ValueError("embedded null byte")
    answer = call(mount._get(), *names, options, copied)
    said = message() if answer < 0 else ""
    raise_kept()
    if told.raised is not None:
        raise told.raised
    forked = mount._forks != forks()
    if answer == -errno.ESHUTDOWN or (forked and answer == -errno.ENOTSUP):
        fail(-answer, source, made=mount._forks)
    if told.failures:
        errors = [(p, OSError(n, why, p)) for p, why, n in told.failures]
        if not told.failures[0][0]:
            # What was to be copied itself; the rest is what would be in it.
            _, why, number = told.failures[0]
            # Something is there that is no directory.
            number = errno.EEXIST if number == errno.ENOTDIR else number
            raise OSError(number, why, to)
        warn(told, strict)
        raise CopyError(errors, copied.stopped != 0)
    warn(told, strict)
    done, total = told.last
    if callback is not None and answer == 0 and done != total:
        # What came without data: holes, and further names of files.
        callback(total, total)
    if answer < 0:
        fail(-answer, source, said or None, made=mount._forks)


def copy_out(
    mount: Mount, source: str, to: str, callback: Progress | None, strict: bool
) -> None:
    _no_root(to)
    _copy(mount, lib.tane_copy_out, source, to, callback, strict)


def copy_in(
    mount: Mount, source: str, to: str, callback: Progress | None, strict: bool
) -> None:
    _no_root(source)
    _copy(mount, lib.tane_copy_in, source, to, callback, strict)


def _no_root(path: str) -> None:
    if not os.path.split(os.path.abspath(path))[1]:
        raise ValueError(f"{path}: the host's root is not the name of a copy")

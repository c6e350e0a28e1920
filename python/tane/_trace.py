# SPDX-License-Identifier: GPL-2.0-only
"""Traces of a kernel: which of its functions calls go through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._closing import Closing
from ._errors import fail, message
from ._tane import ffi, lib

if TYPE_CHECKING:
    from types import TracebackType

    from ._kernel import Kernel


@dataclass(frozen=True)
class TracedCall:
    """A call of one of the kernel's functions."""

    function: str
    thread: int
    """The kernel's, that called."""
    depth: int
    """How many recorded calls are around it."""
    start: int
    """In ns since the kernel booted."""
    duration: int
    """In ns, with the calls in it."""
    own: int
    """In ns, without them."""
    errno: int
    """What it returned, if that is an errno; else 0. Of functions without a result:
    any."""


class Trace(Closing):
    """A recording, of `Kernel.trace`. It ends with its context; what was recorded
    stays in it. Any thread may use it."""

    def __init__(
        self, kernel: Kernel, function: str | None, depth: int, buffer: int | None
    ) -> None:
        self._handle: Any = None
        self._calls: list[TracedCall] | None = None
        self.lost = 0
        """Records that had no room, of which each call takes one or two."""
        options = ffi.new("struct tane_trace_options *")
        options.size = ffi.sizeof("struct tane_trace_options")
        options.depth = depth
        options.buffer = buffer or 0
        name = None if function is None else ffi.new("char[]", function.encode())
        options.function = ffi.NULL if name is None else name
        to = ffi.new("struct tane_trace **")
        answer = lib.tane_trace_start(kernel._get(), options, to)
        if answer < 0:
            fail(-answer, None, message(), made=kernel._forks)
        self._handle = ffi.gc(to[0], lib.tane_trace_close)

    def _get(self) -> Any:
        handle = self._handle
        if handle is None:
            raise ValueError("the trace has ended")
        return handle

    def close(self) -> None:
        """End the recording, and take the tracer out of the kernel. Twice does
        nothing."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        count = lib.tane_trace_stop(handle)
        if count < 0:
            fail(-count, None, message())
        raw = ffi.new("struct tane_traced *")
        calls = []
        for number in range(count):
            raw.size = ffi.sizeof("struct tane_traced")
            lib.tane_trace_call(handle, number, raw)
            name = ffi.string(raw.function).decode("utf-8", "replace")
            times = (raw.start, raw.duration, raw.own)
            calls.append(TracedCall(name, raw.thread, raw.depth, *times, raw.error))
        self.lost = lib.tane_trace_lost(handle)
        self._calls = calls

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def calls(self) -> list[TracedCall]:
        """All that was recorded: one thread after the other, what is in a call behind
        it. ValueError: the recording goes on."""
        if self._calls is None:
            raise ValueError("the recording has not ended: leave its context first")
        return self._calls

    def table(self) -> list[tuple[str, int, int, int]]:
        """A row for each function: its name, how often it was called, ns in all and
        without what it called; what took longest by itself first."""
        rows: dict[str, list[int]] = {}
        for call in self.calls:
            row = rows.setdefault(call.function, [0, 0, 0])
            row[0] += 1
            row[1] += call.duration
            row[2] += call.own
        table = [(name, row[0], row[1], row[2]) for name, row in rows.items()]
        return sorted(table, key=lambda row: (-row[3], row[0]))

    def __str__(self) -> str:
        lines = [f"{'calls':>8} {'total µs':>12} {'by itself':>12}  function"]
        for name, count, total, own in self.table():
            lines.append(f"{count:8} {total / 1000:12.3f} {own / 1000:12.3f}  {name}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        if self._calls is None:
            return "<tane.Trace, recording>"
        return f"<tane.Trace of {len(self._calls)} calls>"

# SPDX-License-Identifier: GPL-2.0-only
"""Checked code: modules of machine code that reach nothing but their own memory."""

from __future__ import annotations

import errno
import inspect
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ._closing import Closing
from ._errors import fail, forks, message
from ._tane import ffi, lib

if TYPE_CHECKING:
    from ._kernel import Kernel
    from ._mount import Mount

Kind: TypeAlias = Literal[
    "memory", "stack", "divide", "unreachable", "call", "time", "exit"
]
Import: TypeAlias = Callable[..., "int | None"]

_KINDS: dict[int, Kind] = {
    lib.TANE_TRAP_MEMORY: "memory",
    lib.TANE_TRAP_STACK: "stack",
    lib.TANE_TRAP_DIVIDE: "divide",
    lib.TANE_TRAP_UNREACHABLE: "unreachable",
    lib.TANE_TRAP_CALL: "call",
    lib.TANE_TRAP_TIME: "time",
    lib.TANE_TRAP_EXIT: "exit",
}


class ModuleError(ValueError):
    """What was given is no module, or breaks a rule (docs/checked.md): the text has its
    number, where in the code, and the remedy."""


class Trap(Exception):
    """A call of a module was ended. The instance may be called again."""

    kind: Kind
    """Memory that is not there for it, its stack is full, a division by zero, it has
    given up, a call by a pointer to no function, its time is over, `tane_exit()`."""
    code: int
    """What it gave to tane_exit()."""
    function: str | None
    """The exported function that begins there or before, if known."""
    file: str | None
    """Of the source, with its line, if known."""
    line: int | None


def _signed(value: int) -> int:
    """As a word of 64 bits, whatever of it counts."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


@ffi.def_extern(onerror=lambda *_: None)  # type: ignore[untyped-decorator]
def tane_py_import(arg: Any, raw: Any, args: Any) -> int:
    """Called by the library where a module calls what it imports."""
    function, arity, instance = ffi.from_handle(arg)
    try:
        result = function(*args[0:arity])
        return _signed(0 if result is None else int(result))
    except BaseException as error:
        # It goes on behind the module, which ends here.
        holder = instance()
        if holder is not None:
            holder._raised = error
        lib.tane_instance_exit(raw, 0)
        return 0


def _arity(function: Import) -> int:
    """How many of the six arguments a function takes."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 6
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 6
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
    return min(6, sum(one.kind in positional for one in parameters))


class Module:
    """Machine code that `tane build` made, checked: docs/checked.md says what is then
    proven.

    >>> module = tane.Module(Path("sum.tmod").read_bytes())
    >>> with module.instance() as instance:
    ...     instance.call("add", 2, 3)
    5

    Any number of instances may be made of it, on any threads. ModuleError: it breaks a
    rule.
    """

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        to = ffi.new("struct tane_module **")
        raw = ffi.from_buffer(data)
        answer = lib.tane_module_open(raw, len(raw), to)
        if answer == -errno.ENOEXEC:
            raise ModuleError(message().removeprefix("module: "))
        if answer < 0:
            fail(-answer, None, message())
        self._handle = ffi.gc(to[0], lib.tane_module_close)

    def _names(self, name: Any) -> list[str]:
        names: list[str] = []
        while found := name(self._handle, len(names)):
            names.append(ffi.string(found).decode())
        return names

    @property
    def exports(self) -> list[str]:
        """The functions that it has to be called."""
        return self._names(lib.tane_module_export)

    @property
    def imports(self) -> list[str]:
        """The functions and system calls that it must be given."""
        return self._names(lib.tane_module_import)

    def instance(
        self,
        *,
        mount: Mount | None = None,
        kernel: Kernel | None = None,
        directory: str | None = None,
        calls: Iterable[str] | None = None,
        imports: Mapping[str, Import] | None = None,
        memory: int | None = None,
        time_limit: float | None = None,
    ) -> Instance:
        """Give it memory, and what it imports.

        mount       its files are those of this mount, of a kernel in this process:
                    `kernel` and `directory` in one
        kernel      the kernel whose system calls it may import
        directory   of that kernel: its root directory and descriptor 0
        calls       names of the system calls that it may import (those that touch no
                    file, and with a directory those on files); those on sockets need no
                    directory, and are only those that are named
        imports     functions that it may import, by name: they get integers and give
                    one; an exception ends the call of the module and is raised there
        memory      bytes of its heap and stack (64 MiB), taken as touched
        time_limit  seconds that one call may take

        The instance is of the thread that made it. While it has a mount, that cannot be
        closed. OSError ENOSYS: it imports what it was not given; ENOTSUP: modules need
        AVX and a Linux that lets programs set the GS base, or the kernel is jailed.
        """
        if mount is not None:
            if kernel is not None or directory is not None:
                raise ValueError("a mount has a kernel and a directory")
            kernel = mount.kernel
            point = lib.tane_mount_point(mount._get())
            directory = os.fsdecode(ffi.string(point))
        return Instance(
            self, kernel, directory, calls, imports or {}, memory, time_limit
        )


class Instance(Closing):
    """A module with memory of its own, made by `Module.instance`. It is used on the
    thread that made it; only `stop` is for others."""

    def __init__(
        self,
        module: Module,
        kernel: Kernel | None,
        directory: str | None,
        calls: Iterable[str] | None,
        imports: Mapping[str, Import],
        memory: int | None,
        time_limit: float | None,
    ) -> None:
        self._handle: Any = None
        self._forks = forks()
        self._thread = threading.get_ident()
        self._depth = 0
        self._raised: BaseException | None = None
        keep: list[Any] = []

        def text(value: bytes) -> Any:
            keep.append(ffi.new("char[]", value))
            return keep[-1]

        options = ffi.new("struct tane_instance_options *")
        options.size = ffi.sizeof("struct tane_instance_options")
        options.memory = memory or 0
        if time_limit is not None:
            options.milliseconds = max(1, round(time_limit * 1000))
        if kernel is not None:
            options.kernel = kernel._get()
        if directory is not None:
            options.directory = text(os.fsencode(directory))
        if calls is not None:
            names = [text(name.encode()) for name in calls]
            keep.append(ffi.new("char *[]", [*names, ffi.NULL]))
            options.calls = keep[-1]
        raw = ffi.new("struct tane_import[]", max(1, len(imports)))
        me = weakref.ref(self)
        # As long as it may call them.
        self._imports = []
        for number, (name, function) in enumerate(imports.items()):
            self._imports.append(ffi.new_handle((function, _arity(function), me)))
            raw[number].name = text(name.encode())
            raw[number].function = lib.tane_py_import
            raw[number].arg = self._imports[-1]
        options.imports = raw
        options.import_count = len(imports)
        to = ffi.new("struct tane_instance **")
        answer = lib.tane_instance_new(module._handle, options, to)
        if answer < 0:
            made = None if kernel is None else kernel._forks
            fail(-answer, directory, message(), made=made)
        self._handle = ffi.gc(to[0], lib.tane_instance_close)

    def _get(self) -> Any:
        handle = self._handle
        if handle is None:
            raise ValueError("the instance is closed")
        if self._forks == forks() and threading.get_ident() != self._thread:
            raise RuntimeError("an instance is used on the thread that made it")
        return handle

    def call(self, function: str, *args: int) -> int:
        """Call a function that it exports, with up to six integers.

        The result is a signed word of 64 bits, of which only as much counts as the
        function's type has. Trap: the call was ended. OSError ENOENT: there is no such
        function; EBUSY: called by an import of this instance's.
        """
        handle = self._get()
        words = ffi.new("int64_t[]", [_signed(int(arg)) for arg in args] or 1)
        result = ffi.new("int64_t *")
        self._depth += 1
        try:
            answer = lib.tane_instance_call(
                handle, function.encode(), words, len(args), result
            )
        finally:
            self._depth -= 1
        if answer < 0:
            fail(-answer, function, message(), made=self._forks)
        error, self._raised = self._raised, None
        if error is not None:
            raise error
        if answer > 0:
            raise self._trap(answer, result[0])
        return int(result[0])

    def _trap(self, number: int, code: int) -> Trap:
        trap = Trap(message().removeprefix("module: "))
        trap.kind, trap.code = _KINDS[number], code
        trap.function = trap.file = trap.line = None
        place = ffi.new("struct tane_place *")
        place.size = ffi.sizeof("struct tane_place")
        if lib.tane_instance_place(self._handle, place) == 0:
            if place.function:
                trap.function = ffi.string(place.function).decode("utf-8", "replace")
            if place.file:
                trap.file = ffi.string(place.file).decode("utf-8", "replace")
                trap.line = place.line
        return trap

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of its memory; offsets are what its pointers are as integers.
        IndexError: the module could not read them all."""
        handle = self._get()
        # Before so much is made room for.
        if offset < 0 or length < 0 or offset + length > 1 << 32:
            raise IndexError(f"{length} bytes at {offset:#x}: not in its memory")
        buffer = bytearray(length)
        self._copied(
            lib.tane_instance_read(handle, offset, ffi.from_buffer(buffer), length)
        )
        return bytes(buffer)

    def write(self, offset: int, data: bytes | bytearray | memoryview) -> None:
        """Put bytes into its memory. IndexError: the module could not write them."""
        handle = self._get()
        if not 0 <= offset < 1 << 32:
            raise IndexError(f"{offset:#x}: not in its memory")
        raw = ffi.from_buffer(data)
        self._copied(lib.tane_instance_write(handle, offset, raw, len(raw)))

    def _copied(self, answer: int) -> None:
        if answer == -errno.EFAULT:
            raise IndexError(message().removeprefix("module: "))
        if answer < 0:
            fail(-answer, None, message(), made=self._forks)

    def give(self, data: bytes | bytearray | memoryview) -> int:
        """Put bytes where its stack ends, for as long as it lives: their offset, which
        is a pointer to them. OSError ENOSPC: no room; EBUSY: called by an import."""
        handle = self._get()
        raw, to = ffi.from_buffer(data), ffi.new("uint64_t *")
        answer = lib.tane_instance_give(handle, raw, len(raw), to)
        if answer < 0:
            fail(-answer, None, message(), made=self._forks)
        return int(to[0])

    @staticmethod
    def _heap(handle: Any) -> tuple[int, int]:
        start, end = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        answer = lib.tane_instance_heap(handle, start, end)
        if answer < 0:
            fail(-answer, None, message())
        return int(start[0]), int(end[0])

    @property
    def heap(self) -> range:
        """Offsets of its heap, which nobody uses in a module without malloc()."""
        return range(*self._heap(self._get()))

    def stop(self) -> None:
        """Have its call, and all later ones, end with the trap "time". On any thread.
        OSError EINVAL: it was made without a time limit."""
        handle = self._handle
        if handle is None:
            raise ValueError("the instance is closed")
        answer = lib.tane_instance_stop(handle)
        if answer < 0:
            fail(-answer, None, message())

    def close(self) -> None:
        """Its memory is gone, and what it had open. Twice does nothing."""
        if self._depth:
            raise ValueError("the instance is in a call")
        self._handle = None

    def __repr__(self) -> str:
        return f"<tane.Instance {'closed' if self._handle is None else 'ready'}>"

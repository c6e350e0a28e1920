# SPDX-License-Identifier: GPL-2.0-only
"""Open files, and open() for them."""

from __future__ import annotations

import io
import os
import stat
import threading
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from ._errors import fail
from ._stat import STAT_SIZE, stat_result
from ._tane import ffi, lib

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

    from ._mount import Mount

# A call costs less than a microsecond and a copy more from some size on; below
# what malloc() takes from the host each time.
BUFFER = 64 * 1024

# Linux moves no more with one call.
MOST = 0x7FFF_F000


class RawFile(io.RawIOBase):
    """An open file of a mount, without a buffer; like io.FileIO.

    It has no `fileno()`: the descriptor is one of the kernel inside. Closing it
    reports no errors of writing, `sync()` does.
    """

    sync_on_close = False
    """Whether close() calls sync() first."""

    def __init__(self, mount: Mount, path: str, flags: int, permissions: int) -> None:
        self._handle: Any = None
        self._mount = mount
        self.name = path
        access = flags & os.O_ACCMODE
        self._reads = access != os.O_WRONLY
        self._writes = access != os.O_RDONLY
        # Nothing has moved the position: it need not be asked for.
        self._untouched = True
        # As it was when the file was opened, if anybody looked.
        self._length: int | None = None
        # Position and length are one thing to other threads.
        self._append = bool(flags & os.O_APPEND)
        to = ffi.new("struct tane_file **")
        name = mount._name(path)
        answer = lib.tane_open(mount._get(), name, flags, permissions, to)
        if answer < 0:
            fail(-answer, path, made=mount._forks)
        self._handle = ffi.gc(to[0], lib.tane_close)

    @property
    def mode(self) -> str:
        if self._append:
            return "ab+" if self._reads else "ab"
        return ("rb+" if self._writes else "rb") if self._reads else "wb"

    def _get(self) -> Any:
        """The handle, to be passed on at once, as a mount's is."""
        handle = self._handle
        if handle is None:
            raise ValueError("I/O operation on closed file")
        return handle

    def _done(self, answer: int) -> int:
        if answer < 0:
            fail(-answer, self.name, made=self._mount._forks)
        return answer

    def _need(self, able: bool, what: str) -> None:
        self._get()
        if not able:
            raise io.UnsupportedOperation(f"file not open for {what}")

    def readable(self) -> bool:
        self._get()
        return self._reads

    def writable(self) -> bool:
        self._get()
        return self._writes

    def seekable(self) -> bool:
        self._get()
        return True

    def isatty(self) -> bool:
        self._get()
        return False

    def fileno(self) -> int:
        raise io.UnsupportedOperation(
            "a file in an image has no descriptor of the host: see kernel_fd()"
        )

    def kernel_fd(self) -> int:
        """The descriptor inside the kernel, for `Kernel.syscall`."""
        return int(lib.tane_fd(self._get()))

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        self._need(self._reads, "reading")
        self._untouched = False
        to = ffi.from_buffer(buffer, require_writable=True)
        return self._done(lib.tane_read(self._get(), to, min(len(to), MOST)))

    def pread(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at an offset; the position stays. Fewer at the end."""
        self._need(self._reads, "reading")
        to = bytearray(size)
        view = ffi.from_buffer(to)
        done = 0
        while done < size:
            n = min(size - done, MOST)
            n = self._done(lib.tane_pread(self._get(), view + done, n, offset + done))
            if n == 0:
                break
            done += n
        ffi.release(view)
        del to[done:]
        return bytes(to)

    def readall(self) -> bytes:
        # The length is a hint: /proc has files of 0 bytes with content.
        if self._untouched and self._length is not None:
            rest = self._length
        else:
            rest = max(self.stat().st_size - self.tell(), 0)
        data = bytearray(rest + 1)
        done = 0
        while True:
            n = self.readinto(memoryview(data)[done:])
            done += n
            if n == 0:
                del data[done:]
                return bytes(data)
            if done == len(data):
                data += bytes(max(len(data), BUFFER))

    def write(self, data: ReadableBuffer, /) -> int:
        self._need(self._writes, "writing")
        self._untouched = False
        view = ffi.from_buffer(data)
        return self._done(lib.tane_write(self._get(), view, min(len(view), MOST)))

    def pwrite(self, data: ReadableBuffer, offset: int) -> int:
        """Write at an offset; the position stays. How many bytes were written."""
        self._need(self._writes, "writing")
        view = ffi.from_buffer(data)
        n = min(len(view), MOST)
        return self._done(lib.tane_pwrite(self._get(), view, n, offset))

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Also os.SEEK_DATA and os.SEEK_HOLE."""
        self._get()
        self._untouched = False
        return self._done(lib.tane_lseek(self._get(), offset, whence))

    def tell(self) -> int:
        if self._untouched:
            self._get()
            return 0
        return self.seek(0, os.SEEK_CUR)

    def truncate(self, size: int | None = None, /) -> int:
        self._need(self._writes, "writing")
        size = self.tell() if size is None else size
        self._done(lib.tane_ftruncate(self._get(), size))
        return size

    def allocate(self, offset: int, length: int, mode: int = 0) -> None:
        """Reserve room; fallocate(2), whose bits `mode` has."""
        self._need(self._writes, "writing")
        self._done(lib.tane_fallocate(self._get(), mode, offset, length))

    def flags(self) -> tuple[int, int]:
        """What chattr(1) sets: FS_ bits of linux/fs.h, and the project. ENOTTY or
        EOPNOTSUPP where the file system has none."""
        flags, project = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        self._done(lib.tane_get_flags(self._get(), flags, project))
        return int(flags[0]), int(project[0])

    def set_flags(self, flags: int) -> None:
        """Set these and no others. What the file system does not know it refuses, or
        forgets: `flags()` tells."""
        self._done(lib.tane_set_flags(self._get(), flags))

    def set_project(self, project: int) -> None:
        self._done(lib.tane_set_project(self._get(), project))

    def shared_parts(self) -> Iterator[tuple[int, int, int]]:
        """Parts that it may share with other files (reflinks), in order: where each
        begins, how long it is, and where the file system has its blocks. ENOTTY or
        EOPNOTSUPP where that does not say."""
        parts = ffi.new("struct tane_shared_part[]", 128)
        at = 0
        while True:
            found = self._done(
                lib.tane_shared_parts(self._get(), at, parts, len(parts))
            )
            for part in parts[0:found]:
                yield int(part.start), int(part.len), int(part.physical)
            before = at
            if found:
                at = int(parts[found - 1].start + parts[found - 1].len)
            if at <= before:
                return

    def stat(self) -> os.stat_result:
        raw = ffi.new("struct tane_stat *", {"size": STAT_SIZE})
        self._done(lib.tane_fstat(self._get(), raw))
        return stat_result(raw)

    def sync(self, *, data_only: bool = False) -> None:
        """What was written is in the image when this returns; fsync(2)."""
        call = lib.tane_fdatasync if data_only else lib.tane_fsync
        self._done(call(self._get()))

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self.sync_on_close and self._handle is not None:
                self.sync()
        finally:
            super().close()
            # The last call that uses it closes it.
            self._handle = None

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode={self.mode!r}"
        return f"<tane.RawFile {self.name!r} {state}>"


def flags_of(mode: str) -> tuple[int, bool]:
    """The O_ bits of a mode of open(), and whether it is binary."""
    letters = set(mode)
    kinds = letters & set("rwax")
    wrong = letters - set("rwaxbt+") or len(letters) != len(mode)
    if wrong or len(kinds) != 1 or {"b", "t"} <= letters:
        raise ValueError(f"invalid mode: {mode!r}")
    flags = {
        "r": 0,
        "w": os.O_CREAT | os.O_TRUNC,
        "a": os.O_CREAT | os.O_APPEND,
        "x": os.O_CREAT | os.O_EXCL,
    }[kinds.pop()]
    if "+" in letters:
        flags |= os.O_RDWR
    elif "r" not in letters:
        flags |= os.O_WRONLY
    return flags, "b" in letters


def open_file(
    mount: Mount,
    path: str,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
    permissions: int = 0o644,
) -> IO[Any]:
    """As the built-in open(); a new file gets exactly these permissions."""
    flags, binary = flags_of(mode)
    if binary and not (encoding is None and errors is None and newline is None):
        raise ValueError("binary mode takes no encoding, errors or newline argument")
    if buffering == 0 and not binary:
        raise ValueError("can't have unbuffered text I/O")
    raw = RawFile(mount, path, flags, permissions)
    try:
        if flags & os.O_ACCMODE == os.O_RDONLY:
            found = raw.stat()
            if stat.S_ISDIR(found.st_mode):
                fail(21, path)  # EISDIR, as the built-in one says
            raw._length = found.st_size
        if flags & os.O_APPEND:
            raw.seek(0, os.SEEK_END)
        if buffering == 0:
            return raw  # type: ignore[return-value]
        size = BUFFER if buffering in (-1, 1) else buffering
        buffer: io.BufferedRandom | io.BufferedReader | io.BufferedWriter
        if "+" in mode:
            buffer = io.BufferedRandom(raw, size)
        elif raw.writable():
            buffer = io.BufferedWriter(raw, size)
        else:
            buffer = io.BufferedReader(raw, size)
        if binary:
            return buffer
        lines = buffering == 1
        text = io.TextIOWrapper(buffer, encoding, errors, newline, lines)
        text.mode = mode  # type: ignore[misc]
        return text
    except BaseException:
        raw.close()
        raise


class _Scratch(threading.local):
    """Room for small files, of each thread its own."""

    def __init__(self) -> None:
        self.room = ffi.new("char[]", BUFFER)
        self.names = ffi.new("const char *[1]")
        self.lengths = ffi.new("int64_t[1]")


_scratch = _Scratch()


def read_bytes(mount: Mount, path: str) -> bytes:
    """The whole content of a file: one call for a small one."""
    scratch = _scratch
    name = mount._name(path)
    scratch.names[0] = pointer = ffi.from_buffer("char[]", name)
    lengths, room = scratch.lengths, scratch.room
    done = lib.tane_read_files(mount._get(), scratch.names, 1, room, BUFFER, lengths)
    del pointer
    if done == 1:
        length = lengths[0]
        if length >= 0:
            return bytes(ffi.unpack(room, length))
        done = length
    if done < 0:
        fail(-done, path, made=mount._forks)
    with RawFile(mount, path, os.O_RDONLY, 0) as file:
        return file.readall()

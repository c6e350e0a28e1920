# SPDX-License-Identifier: GPL-2.0-only
"""Promises about open files: what the built-in open() does, these do."""

from __future__ import annotations

import errno
import io
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

import tane

Open = Callable[..., IO[Any]]


@pytest.fixture(params=["host", "jailed", "here"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """open() in an empty directory: the oracle is the host's own."""
    if request.param == "host":
        os.umask(0o022)
        yield lambda name, *args, **kw: open(tmp_path / name, *args, **kw)
        return
    mount = request.getfixturevalue(request.param)
    yield mount.open


def test_binary_files_read_write_and_seek(opener: Open) -> None:
    with opener("f", "w+b") as file:
        assert isinstance(file, io.BufferedRandom)
        assert file.write(b"0123456789") == 10
        assert file.seek(-3, os.SEEK_END) == 7
        assert file.read() == b"789"
        file.seek(2)
        file.write(b"xx")
        assert file.truncate(5) == 5
        file.seek(0)
        assert file.read() == b"01xx4"
    with opener("f", "ab") as file:
        assert isinstance(file, io.BufferedWriter)
        assert file.tell() == 5
        file.write(b"!")
    with opener("f", "rb") as file:
        assert isinstance(file, io.BufferedReader)
        assert file.peek()[:2] == b"01"
        buffer = bytearray(4)
        assert file.readinto(buffer) == 4 and buffer == b"01xx"
        assert file.read1() == b"4!"
        assert file.read() == b""
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"")


def test_text_files_know_encodings_and_newlines(opener: Open) -> None:
    with opener("t", "w", encoding="utf-16", newline="\r\n") as file:
        file.write("zwölf\nBoxkämpfer\n")
        assert file.mode == "w"
    with opener("t", encoding="utf-16") as file:
        assert list(file) == ["zwölf\n", "Boxkämpfer\n"]
    with opener("t", encoding="utf-16", newline="") as file:
        assert file.readline() == "zwölf\r\n"
    with opener("t", "rb") as file:
        assert file.read().decode("utf-16") == "zwölf\r\nBoxkämpfer\r\n"


def test_unbuffered_files_are_raw(opener: Open) -> None:
    with opener("r", "wb", buffering=0) as file:
        assert isinstance(file, io.RawIOBase)
        assert file.write(memoryview(b"abcdef")[1:4]) == 3
        assert file.writable() and not file.readable() and file.seekable()
    with opener("r", "rb", buffering=0) as file:
        assert file.mode == "rb"
        assert file.readall() == b"bcd"  # type: ignore[attr-defined]
        assert file.readall() == b""  # type: ignore[attr-defined]
        assert file.seek(1) == 1
        assert file.read(1) == b"c"


@pytest.mark.parametrize("mode", ["", "rw", "bt", "q", "r+w", "rr", "rbt", "+"])
def test_wrong_modes_are_refused(opener: Open, mode: str) -> None:
    with pytest.raises(ValueError):
        opener("f", mode)


def test_x_is_for_new_files(opener: Open) -> None:
    opener("x", "x").close()
    with pytest.raises(FileExistsError) as there:
        opener("x", "xb")
    assert there.value.errno == errno.EEXIST
    with pytest.raises(ValueError):
        opener("x", "rb", encoding="utf-8")
    with pytest.raises(ValueError):
        opener("x", "r", buffering=0)


def test_a_directory_is_no_file(opener: Open) -> None:
    for mode in ("r", "rb", "w"):
        with pytest.raises(IsADirectoryError):
            opener(".", mode)


def test_a_closed_file_is_a_value_error(opener: Open) -> None:
    file = opener("f", "wb", buffering=0)
    file.close()
    file.close()
    assert file.closed
    calls: list[Callable[[], object]] = [file.tell, file.readable, file.fileno]
    for call in (lambda: file.write(b""), *calls):
        with pytest.raises((ValueError, io.UnsupportedOperation)):
            call()


def test_large_files_and_holes_are_kept(mount: tane.Mount) -> None:
    data = os.urandom(3 << 20)
    with mount.open("large", "wb") as file:
        file.seek(1 << 33)
        file.write(data)
    assert mount.stat("large").st_size == (1 << 33) + len(data)
    assert mount.stat("large").st_blocks * 512 < 8 << 20
    with mount.open("large", "rb", 0) as raw:
        assert isinstance(raw, tane.RawFile)
        assert raw.seek(0, os.SEEK_DATA) == 1 << 33
        assert raw.pread(len(data) + 1, 1 << 33) == data
        assert raw.tell() == 1 << 33
        assert raw.readall() == data


def test_buffers_are_filled_in_place(mount: tane.Mount) -> None:
    data = os.urandom(1 << 20)
    assert (mount / "f").write_bytes(data) == len(data)
    room = bytearray(len(data) + 10)
    with mount.open("f", "rb", 0) as file:
        assert file.readinto(memoryview(room)[5:-5]) == len(data)  # type: ignore[attr-defined]
        with pytest.raises((TypeError, BufferError)):
            file.readinto(b"read-only")  # type: ignore[attr-defined]
    assert room[5:-5] == data


def test_pwrite_and_allocate_leave_the_position(mount: tane.Mount) -> None:
    with mount.open("f", "w+b", 0) as file:
        assert isinstance(file, tane.RawFile)
        assert file.pwrite(b"abc", 10) == 3
        file.allocate(0, 1 << 16)
        assert file.tell() == 0
        assert file.pread(5, 9) == b"\0abc\0"
        file.sync()
        file.sync(data_only=True)


def test_a_file_has_no_descriptor_of_the_host(image: Path) -> None:
    with (
        tane.open(image, jail=False) as mount,
        mount.open("hello", "rb") as file,
    ):
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()
        raw = file.raw  # type: ignore[attr-defined]
        assert mount.kernel.syscall(8, raw.kernel_fd(), 5, os.SEEK_SET) == 5
        assert file.read() == b"the image\n"


def test_many_files_are_read_at_once(mount: tane.Mount) -> None:
    content = {f"/many/{n}": os.urandom(n * 37 % 9000) for n in range(500)}
    # Longer than what is read at once.
    content["/many/large"] = os.urandom(5 << 20)
    mount.mkdir("/many")
    for path, data in content.items():
        (mount / path).write_bytes(data)
    assert mount.read_many(content) == list(content.values())
    assert mount.read_many([]) == []
    assert [mount.read_bytes(path) for path in content] == list(content.values())
    with pytest.raises(FileNotFoundError) as missing:
        mount.read_many(["/hello", "/none"])
    assert missing.value.filename == "/none"
    first, second, third = mount.read_many(
        ["/hello", "/none", "/many"], on_error="return"
    )
    assert first == b"from the image\n"
    assert isinstance(second, FileNotFoundError)
    assert isinstance(third, IsADirectoryError)


def test_threads_share_a_mount(mount: tane.Mount) -> None:
    failed: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for turn in range(50):
                path = mount / f"{me}-{turn % 5}"
                path.write_bytes(bytes([me]) * 5000)
                assert path.read_bytes() == bytes([me]) * 5000
                assert path.name in mount.listdir()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_closing_waits_for_calls_of_other_threads(image: Path) -> None:
    mount = tane.open(image, mode="rw")
    stop = threading.Event()
    other: list[BaseException] = []

    def read() -> None:
        while not stop.is_set():
            try:
                mount.read_bytes("hello")
            except ValueError:
                return  # It is closed.
            except BaseException as error:
                other.append(error)
                return

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    mount.read_bytes("hello")
    mount.close()
    stop.set()
    for thread in threads:
        thread.join()
    assert not other

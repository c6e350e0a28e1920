# SPDX-License-Identifier: GPL-2.0-only
"""Promises about checkpoints."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tane


@pytest.fixture
def kernel() -> Iterator[tane.Kernel]:
    with tane.Kernel() as kernel:
        yield kernel


@pytest.fixture
def held(kernel: tane.Kernel, image: Path) -> Iterator[tane.Mount]:
    """What is written to it stays in memory."""
    before = image.read_bytes()
    with tane.open(image, mode="rw", overlay=":memory:", kernel=kernel) as mount:
        yield mount
    assert image.read_bytes() == before


def test_what_was_done_in_the_context_is_undone(
    kernel: tane.Kernel, held: tane.Mount
) -> None:
    with kernel.checkpoint():
        (held / "hello").write_text("other")
        (held / "new").mkdir()
        held.sync()
        with pytest.raises(ZeroDivisionError), kernel.checkpoint():
            (held / "new/deeper").mkdir()
            raise ZeroDivisionError
        assert list((held / "new").iterdir()) == []
    assert (held / "hello").read_text() == "from the image\n"
    assert not (held / "new").exists()


def test_one_checkpoint_serves_many_rounds(
    kernel: tane.Kernel, held: tane.Mount
) -> None:
    first = kernel.checkpoint()
    for n in range(3):
        (held / "hello").write_text(str(n))
        second = kernel.checkpoint()
        kernel.rollback(first)
        assert (held / "hello").read_text() == "from the image\n"
        with pytest.raises(OSError, match="older") as refused:
            kernel.rollback(second)
        assert refused.value.errno == errno.ESTALE
    (held / "hello").write_text("kept")
    first.close()
    first.close()
    assert (held / "hello").read_text() == "kept"
    with pytest.raises(ValueError, match="closed"):
        kernel.rollback(first)


def test_files_are_of_their_time(kernel: tane.Kernel, held: tane.Mount) -> None:
    with held.open("hello", "rb", buffering=0) as before:
        assert before.read(5) == b"from "
        with kernel.checkpoint():
            before.read(4)
            since = held.open("since", "wb", buffering=0)
        assert before.read(3) == b"the"
        with pytest.raises(OSError, match="Bad file") as refused:
            since.write(b"x")
        assert refused.value.errno == errno.EBADF
        del since
        assert before.read(6) == b" image"


def test_what_cannot_go_back_is_refused_with_its_reason(
    kernel: tane.Kernel, held: tane.Mount, image: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.img"
    copy.write_bytes(image.read_bytes())

    def refused(code: int, words: str) -> pytest.RaisesExc[OSError]:
        return pytest.raises(OSError, match=words, check=lambda e: e.errno == code)

    with tane.Kernel() as other:
        checkpoint = kernel.checkpoint()
        with refused(errno.EINVAL, "another kernel"):
            other.rollback(checkpoint)
        with tane.RamDisk(kernel, 1 << 20), refused(errno.EBUSY, "added since"):
            kernel.rollback(checkpoint)
        kernel.rollback(checkpoint)
        written = tane.Image(copy, mode="rw", kernel=other)
        with written, refused(errno.ENOTSUP, "slot 0"):
            other.checkpoint()
        other.halt()
        with pytest.raises(tane.KernelError):
            other.checkpoint()
    with tane.Image(image) as jailed, refused(errno.ENOTSUP, "process of its own"):
        jailed.kernel.checkpoint()


def test_a_refusal_at_the_end_does_not_hide_what_was_raised(
    kernel: tane.Kernel, held: tane.Mount
) -> None:
    disks = []
    refused = pytest.raises(OSError, match="added since")
    with refused as error, kernel.checkpoint():
        disks.append(tane.RamDisk(kernel, 1 << 20))
        raise KeyError("mine")
    assert isinstance(error.value.__context__, KeyError)


def test_other_threads_read_meanwhile(kernel: tane.Kernel, held: tane.Mount) -> None:
    stop = threading.Event()
    wrong: list[object] = []

    def look() -> None:
        while not stop.is_set():
            try:
                text = (held / "hello").read_text()
                if text != "from the image\n":
                    wrong.append(text)
            except OSError as error:
                # Opened in a moment that was undone.
                if error.errno != errno.EBADF:
                    wrong.append(error)

    thread = threading.Thread(target=look)
    checkpoint = kernel.checkpoint()
    thread.start()
    try:
        for _ in range(50):
            (held / "mine").mkdir()
            kernel.rollback(checkpoint)
            assert not (held / "mine").exists()
    finally:
        stop.set()
        thread.join()
    assert not wrong

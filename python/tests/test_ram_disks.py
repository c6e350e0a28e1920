# SPDX-License-Identifier: GPL-2.0-only
"""Promises about disks of memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tane


@pytest.fixture
def kernel() -> Iterator[tane.Kernel]:
    with tane.Kernel() as kernel:
        yield kernel


def resident() -> int:
    """The memory of all such disks of this process, in bytes."""
    files = {}
    for fd in Path("/proc/self/fd").iterdir():
        try:
            if "memfd:tane-disk" in os.readlink(fd):
                found = fd.stat()
                files[found.st_ino] = found.st_blocks * 512
        except FileNotFoundError:
            pass
    return sum(files.values())


def test_one_larger_than_memory_takes_what_is_written_and_gives_it_back(
    kernel: tane.Kernel,
) -> None:
    with tane.RamDisk(kernel, 1 << 44) as disk:
        assert resident() < 1 << 20
        disk.write(b"at the end", (1 << 44) - 4096)
        disk.write(bytes(range(256)) * 4096, 1 << 40)
        assert disk.read(10, (1 << 44) - 4096) == b"at the end"
        assert disk.read(256, (1 << 40) + 256) == bytes(range(256))
        assert disk.read(4096, 1 << 30) == bytes(4096)
        assert 1 << 20 <= resident() < 4 << 20
    assert resident() == 0
    with pytest.raises(ValueError, match="closed"):
        disk.read(1, 0)


def test_a_file_system_is_put_on_it_and_mounted(
    kernel: tane.Kernel, image: Path
) -> None:
    with tane.RamDisk(kernel, 1 << 30) as disk:
        disk.write(image.read_bytes(), 0)
        with disk.mount(fstype="ext4") as mount:
            assert (mount / "hello").read_text() == "from the image\n"
            (mount / "new").write_text("in memory")
        with disk.mount() as mount:
            assert (mount / "new").read_text() == "in memory"

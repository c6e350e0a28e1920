# SPDX-License-Identifier: GPL-2.0-only
"""Promises about reading many files at once: it gives what open().read() gives, of
whatever image, whoever finds the bytes."""

from __future__ import annotations

import errno
import os
import random
import struct
from pathlib import Path

import pytest
from conftest import run

import tane

Content = dict[str, bytes]

# x86-64's number, and linux/fsverity.h.
IOCTL = 16
FS_IOC_ENABLE_VERITY = 0x4080_6685


def fill(mount: tane.Mount, reserves: bool = True) -> Content:
    """Writes files that lie in all ways that there are; what is in them."""
    dice = random.Random(1)
    content: Content = {}
    for n in range(300):
        content[f"/small/{n}"] = dice.randbytes(n * 61 % 9000)
    content["/large"] = dice.randbytes((5 << 20) + 1)
    mount.mkdir("/small")
    for path, data in content.items():
        (mount / path).write_bytes(data)
    # In pieces, none beside the one before.
    pieces = {"/this": b"", "/that": b""}
    for _ in range(12):
        for name in pieces:
            piece = dice.randbytes(4096)
            pieces[name] += piece
            with mount.open(name, "ab", 0) as file:
                file.write(piece)
                file.sync()  # type: ignore[attr-defined]
    content |= pieces
    # With a hole before, between and behind; one that only a hole is; and room that
    # nothing was written to.
    holes = {"/before": [9000], "/between": [5, 70_000], "/behind": [4096]}
    for name, ends in holes.items():
        with mount.open(name, "wb") as file:
            for end in ends:
                file.seek(end - 5)
                file.write(b"bytes")
            size = ends[-1] + (10_000 if name == "/behind" else 0)
            file.truncate(size)
        expected = bytearray(size)
        for end in ends:
            expected[end - 5 : end] = b"bytes"
        content[name] = bytes(expected)
    with mount.open("/hole", "wb") as file:
        file.truncate(3000)
    content["/hole"] = bytes(3000)
    if reserves:
        with mount.open("/reserved", "wb", 0) as file:
            file.allocate(0, 6000)  # type: ignore[attr-defined]
            file.pwrite(b"start", 0)  # type: ignore[attr-defined]
        content["/reserved"] = b"start" + bytes(5995)
    # Other names of the same.
    mount.link("/small/7", "/second")
    mount.symlink("small/8", "/link")
    content["/second"], content["/link"] = content["/small/7"], content["/small/8"]
    return content


def check(image: Path, content: Content, selector: str | None = None) -> None:
    with tane.open(image, selector) as mount:
        found = [f"{top}/{name}" for top, _, files in mount.walk() for name in files]
        assert {path.replace("//", "/") for path in found} == set(content)
        paths = list(content)
        many = mount.read_many(paths)
        assert many == list(content.values())
        # Once more, and in another order: some are in a cache by now.
        paths.reverse()
        assert mount.read_many(paths) == many[::-1]
        for path, data in content.items():
            with mount.open(path, "rb") as file:
                assert file.read() == data, path


def made(path: Path, mib: int, *command: str) -> Path:
    """An image full of junk but for what a program makes of it."""
    path.write_bytes(b"\x5a" * (mib << 20))
    run(*command, path)
    return path


EXT4 = ("mkfs.ext4", "-qF", "-E", "nodiscard")


@pytest.mark.parametrize(
    ("mib", "command", "by_extents"),
    [
        (48, (*EXT4, "-b", "4096"), True),
        (48, (*EXT4, "-b", "1024"), True),
        (48, (*EXT4, "-O", "inline_data", "-I", "1024"), True),
        (48, (*EXT4, "-O", "bigalloc"), True),
        (48, (*EXT4, "-O", "^extent,^64bit"), False),
        (48, ("mkfs.ext2", "-qF", "-E", "nodiscard"), False),
        (320, ("mkfs.xfs", "-qfK"), True),
        (128, ("mkfs.btrfs", "-qfK"), True),
    ],
    ids=["ext4", "1k", "inline", "bigalloc", "blocks", "ext2", "xfs", "btrfs"],
)
def test_many_files_are_what_each_is(
    tmp_path: Path, mib: int, command: tuple[str, ...], by_extents: bool
) -> None:
    image = made(tmp_path / "disk.img", mib, *command)
    with tane.open(image, mode="rw") as mount:
        content = fill(mount, reserves=by_extents)
    check(image, content)


def test_many_files_of_a_container_and_its_overlay(
    partitioned: Path, tmp_path: Path
) -> None:
    with tane.open(partitioned, "2", mode="rw") as mount:
        content = fill(mount)
    check(partitioned, content, "2")
    # The same disk as a file of its own, and what is written beside it.
    raw, beside = tmp_path / "raw.img", tmp_path / "beside.qcow2"
    run("qemu-img", "convert", "-O", "raw", partitioned, raw)
    check(raw, content, "2")
    before = raw.read_bytes()
    with tane.open(raw, "2", mode="rw", overlay=beside) as mount:
        for path in [path for path in content if path not in ("/link", "/second")][::3]:
            content[path] = os.urandom(len(content[path]))
            with mount.open(path, "rb+") as file:
                file.write(content[path])
    content["/link"], content["/second"] = content["/small/8"], content["/small/7"]
    assert raw.read_bytes() == before
    check(beside, content, "2")


def test_many_files_of_a_journal_that_was_not_replayed(tmp_path: Path) -> None:
    image = made(tmp_path / "disk.img", 48, *EXT4)
    content = {f"/{n}": os.urandom(4000) for n in range(100)}
    mount = tane.open(image, mode="rw", options="data=journal")
    for path, data in content.items():
        (mount / path).write_bytes(data)
    mount.sync()
    # What is written last is in the journal alone, as a power cut leaves it.
    for path in list(content)[::2]:
        content[path] = os.urandom(4000)
        with mount.open(path, "rb+", 0) as file:
            file.write(content[path])
            file.sync()  # type: ignore[attr-defined]
    mount.kernel.halt()
    with pytest.raises(tane.KernelError):
        mount.close()
    state = run("dumpe2fs", "-h", image)
    assert "needs_recovery" in state
    stale = image.read_bytes()
    check(image, content)
    assert image.read_bytes() == stale


def test_many_files_are_checked_by_fs_verity(tmp_path: Path) -> None:
    image = made(tmp_path / "disk.img", 48, *EXT4, "-b", "4096", "-O", "verity")
    content = {f"/{n}": os.urandom(5000) for n in range(20)}
    with tane.open(image, mode="rw", jail=False) as mount:
        for path, data in content.items():
            (mount / path).write_bytes(data)
        with mount.open("/7", "rb", 0) as file:
            # struct fsverity_enable_arg: version 1, SHA-256, blocks of 4096 bytes.
            argument = bytearray(struct.pack("<3I", 1, 1, 4096).ljust(128, b"\0"))
            fd = file.kernel_fd()  # type: ignore[attr-defined]
            mount.kernel.syscall(IOCTL, fd, FS_IOC_ENABLE_VERITY, argument)
    check(image, content)
    disk = image.read_bytes()
    for path in ("/7", "/8"):
        at = disk.index(content[path][:100])
        with image.open("rb+") as raw:
            raw.seek(at)
            raw.write(b"forged")
    with tane.open(image) as mount:
        found = mount.read_many(content, on_error="return")
    fared = dict(zip(content, found, strict=True))
    refused = fared.pop("/7")
    assert isinstance(refused, OSError) and refused.errno == errno.EIO
    # Nothing vouches for the other.
    content["/8"] = b"forged" + content["/8"][6:]
    assert fared == {path: data for path, data in content.items() if path != "/7"}


def test_what_the_host_cannot_read_any_more_is_an_error(tmp_path: Path) -> None:
    image = made(tmp_path / "disk.img", 48, *EXT4)
    content = {f"/{n:02}": os.urandom(5000) for n in range(40)}
    with tane.open(image, mode="rw") as mount:
        for path, data in content.items():
            (mount / path).write_bytes(data)
    disk = image.read_bytes()
    places = {path: disk.index(data[:100]) for path, data in content.items()}
    end = sorted(places.values())[20]
    with tane.open(image) as mount:
        # Metadata first, which lies behind.
        mount.read_many(content)
        os.truncate(image, end)
        found = mount.read_many(content, on_error="return")
    for (path, data), one in zip(content.items(), found, strict=True):
        if places[path] < end:
            assert one == data, path
        else:
            assert isinstance(one, OSError) and one.errno == errno.EIO, path

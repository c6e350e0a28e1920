# SPDX-License-Identifier: GPL-2.0-only
"""Promises about images that are made."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from conftest import fsck

import tane


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "d/empty").mkdir(parents=True)
    (top / "f").write_bytes(bytes(range(256)) * 1000)
    (top / "d/link").symlink_to("../f")
    os.link(top / "f", top / "d/hard")
    (top / "d").chmod(0o750)
    return top


def test_an_image_has_the_files_and_is_the_same_each_time(
    tree: Path, tmp_path: Path
) -> None:
    said: list[tuple[int, int]] = []
    image, again = tmp_path / "one.img", tmp_path / "two.img"
    made = tane.make_image(
        tree,
        image,
        owner="12:34",
        label="made",
        epoch=1_700_000_000,
        callback=lambda done, total: said.append((done, total)),
    )
    assert (made.size, made.files, made.epoch) == (
        image.stat().st_size,
        1,
        1_700_000_000,
    )
    assert said and said[-1][1] == 256_000
    fsck(image)
    same = tane.make_image(
        tree, again, owner="12:34", label="made", epoch=1_700_000_000
    )
    assert same == made
    assert image.read_bytes() == again.read_bytes()
    with tane.open(image) as mount:
        assert mount.read_bytes("f") == (tree / "f").read_bytes()
        assert mount.readlink("d/link") == "../f"
        stat = mount.stat("d")
        assert (stat.st_mode & 0o777, stat.st_uid, stat.st_gid) == (0o750, 12, 34)
        assert mount.stat("d/hard").st_ino == mount.stat("f").st_ino


def test_a_file_that_describes_a_disk_is_a_source_too(
    tree: Path, tmp_path: Path
) -> None:
    layout, image = tmp_path / "disk.toml", tmp_path / "disk.img"
    layout.write_text(
        "[[partition]]\ntype = 'bios'\nsize = '1M'\n"
        f"[[partition]]\nfs = 'ext4'\nsource = '{tree.name}'\n"
    )
    with pytest.raises(OSError, match="of each partition"):
        tane.make_image(layout, image, fs="ext4")
    made = tane.make_image(layout, image)
    assert (made.size, made.files) == (image.stat().st_size, 1)
    with tane.open(image, 2) as mount:
        assert mount.read_bytes("f") == (tree / "f").read_bytes()


def test_what_is_not_made_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    image = tmp_path / "new.img"
    with pytest.raises(FileNotFoundError, match="none"):
        tane.make_image(tmp_path / "none", image)
    with pytest.raises(OSError, match="zfs is not supported") as caught:
        tane.make_image(tree, image, fs="zfs")
    assert caught.value.errno == errno.EINVAL
    with pytest.raises(ValueError, match="null byte"):
        tane.make_image(tree, image, label="a\0b")
    for size in (0, -1):
        with pytest.raises(ValueError, match="size must be positive"):
            tane.make_image(tree, image, size=size)

    def stop(_done: int, _total: int) -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        tane.make_image(tree, image, callback=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["tree"]
    image.write_text("data")
    with pytest.raises(FileExistsError):
        tane.make_image(tree, image)
    assert image.read_text() == "data"
    assert tane.make_image(tree, image, force=True).files == 1
    fsck(image)


def test_what_a_kind_cannot_hold_is_told(tree: Path, tmp_path: Path) -> None:
    if shutil.which("mksquashfs") is None:
        pytest.skip("mksquashfs is not installed (make deps)")
    image = tmp_path / "squashfs.img"
    os.utime(tree / "f", ns=(5, 1_000_000_005))
    with pytest.raises(tane.LossError, match="exact times"):
        tane.make_image(tree, image, fs="squashfs", strict=True)
    assert not image.exists()
    with pytest.warns(tane.LossWarning, match="exact times"):
        tane.make_image(tree, image, fs="squashfs")
    with tane.open(image) as mount:
        assert mount.read_bytes("f") == (tree / "f").read_bytes()

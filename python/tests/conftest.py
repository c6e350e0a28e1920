# SPDX-License-Identifier: GPL-2.0-only
"""What the tests share: images, made by the host's own tools."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tane

SBIN = {**os.environ, "PATH": f"/usr/sbin:/sbin:{os.environ['PATH']}"}

MakeImage = Callable[..., Path]


def run(*command: str | os.PathLike[str], codes: tuple[int, ...] = (0,)) -> str:
    done = subprocess.run(command, env=SBIN, capture_output=True, text=True)
    assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def fsck(image: Path) -> None:
    run("e2fsck", "-fn", image)


@pytest.fixture
def make_image(tmp_path: Path) -> MakeImage:
    """An image with an ext4 that holds some files, by path."""

    def make(
        files: dict[str, bytes] | None = None, name: str = "disk.img", mib: int = 32
    ) -> Path:
        tree = tmp_path / f"{name}.tree"
        tree.mkdir()
        for path, content in (files or {}).items():
            file = tree / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        image = tmp_path / name
        with image.open("wb") as new:
            new.truncate(mib << 20)
        run("mkfs.ext4", "-qF", "-L", "test", "-d", tree, image)
        return image

    return make


@pytest.fixture(scope="session")
def module_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checked module of tests/support/module.c, which imports `twice`."""
    top = Path(__file__).parent.parent.parent
    to = tmp_path_factory.mktemp("module") / "module.tmod"
    cargo = os.environ.get("CARGO") or "cargo"
    run(
        *(cargo, "run", "-q", "--manifest-path", top / "Cargo.toml"),
        *("-p", "tane-checked-build", "--example", "build", "--"),
        *(top / "tests/support/module.c", to, "twice"),
    )
    return to


# Of the partition with the file system, in MiB.
START = 4


@pytest.fixture
def partitioned(make_image: MakeImage, tmp_path: Path) -> Path:
    """A qcow2 whose second partition is an empty ext4, and the first nothing."""
    inner = make_image(name="inner.img", mib=64)
    raw, image = tmp_path / "table.img", tmp_path / "disk.qcow2"
    with raw.open("wb") as disk:
        disk.truncate(72 << 20)
        disk.seek(START << 20)
        disk.write(inner.read_bytes())
    table = f"label: gpt\nstart=1MiB, size=1MiB\nstart={START}MiB, size=64MiB\n"
    subprocess.run(["sfdisk", "-q", raw], input=table, env=SBIN, text=True, check=True)
    run("qemu-img", "convert", "-O", "qcow2", raw, image)
    return image


def fsck_partitioned(image: Path) -> None:
    """What QEMU and e2fsck say of it."""
    run("qemu-img", "check", image)
    raw = image.with_suffix(".raw")
    run("qemu-img", "convert", "-O", "raw", image, raw)
    run("e2fsck", "-fn", f"{raw}?offset={START << 20}")


@pytest.fixture
def image(make_image: MakeImage) -> Path:
    return make_image({"hello": b"from the image\n", "dir/inner": b"deeper\n"})


@contextmanager
def mounted(image: Path, jail: bool) -> Iterator[tane.Mount]:
    """A mount for writing; the file system must be sound afterwards."""
    with tane.open(image, mode="rw", jail=jail) as mount:
        yield mount
    fsck(image)


@pytest.fixture
def jailed(image: Path) -> Iterator[tane.Mount]:
    """Served by a worker."""
    with mounted(image, jail=True) as mount:
        yield mount


@pytest.fixture
def here(image: Path) -> Iterator[tane.Mount]:
    """Served in this process."""
    with mounted(image, jail=False) as mount:
        yield mount


@pytest.fixture(params=["jailed", "here"])
def mount(request: pytest.FixtureRequest) -> tane.Mount:
    """Either, one after the other."""
    found: tane.Mount = request.getfixturevalue(request.param)
    return found

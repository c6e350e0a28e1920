# SPDX-License-Identifier: GPL-2.0-only
"""Reads every file of an ext4 image by tane and, if it is installed, by dissect
(pip install dissect.extfs), in turn, in one run; and says what each took.

    python read_files.py [--files 10000] [--runs 5] [--image IMAGE]
    python read_files.py --reader READER --image IMAGE      (as `tane bench` does)

Medians of the time that passed and of this process's processor time, which other
programs on the machine disturb less; that of tane's jailed process is not in it.
Timed is opening the image, finding all files, reading each whole, and closing: from
a process that has its modules loaded. Every reader must find the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tane

Content = dict[str, bytes]


def make(image: Path, files: int) -> None:
    """An image with files of 0 to 16 KiB, 100 in a directory; the same each time."""
    dice = random.Random(1)
    tree = image.with_suffix(".tree")
    for n in range(files):
        path = tree / f"{n // 100:03}" / f"{n:05}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dice.randbytes(dice.randrange(16 << 10)))
    with image.open("wb") as new:
        new.truncate(max(64 << 20, files * (32 << 10)))
    search = f"/usr/sbin:/sbin:{os.environ['PATH']}"
    command = ["mkfs.ext4", "-qF", "-d", str(tree), str(image)]
    subprocess.run(command, check=True, env={**os.environ, "PATH": search})
    shutil.rmtree(tree)


def paths(mount: tane.Mount) -> list[str]:
    return [f"{top}/{name}" for top, _, files in mount.walk() for name in files]


def by_read_many(image: Path) -> Content:
    with tane.open(image) as mount:
        names = paths(mount)
        return dict(zip(names, mount.read_many(names), strict=True))


def by_read_bytes(image: Path) -> Content:
    with tane.open(image) as mount:
        return {name: mount.read_bytes(name) for name in paths(mount)}


def by_open(image: Path) -> Content:
    with tane.open(image) as mount:
        found = {}
        for name in paths(mount):
            with mount.open(name, "rb") as file:
                found[name] = file.read()
        return found


def by_read_many_here(image: Path) -> Content:
    with tane.open(image, jail=False) as mount:
        names = paths(mount)
        return dict(zip(names, mount.read_many(names), strict=True))


def by_dissect(image: Path) -> Content:
    from dissect.extfs import ExtFS

    found: Content = {}
    with image.open("rb") as file:
        below = [("", ExtFS(file).root)]
        while below:
            top, directory = below.pop()
            for name, node in directory.listdir().items():
                if name in (".", ".."):
                    continue
                if node.filetype == 0o040000:
                    below.append((f"{top}/{name}", node))
                elif node.filetype == 0o100000:
                    found[f"{top}/{name}"] = node.open().read()
    return found


READERS: dict[str, Callable[[Path], Content]] = {
    "tane, read_many()": by_read_many,
    "the same, no jail": by_read_many_here,
    "tane, read_bytes()": by_read_bytes,
    "tane, open()": by_open,
    "dissect.extfs": by_dissect,
}


def by_host(tree: Path) -> Content:
    """What the others should find, from the directory that the image is made of."""
    below = (Path(top, name) for top, _, files in os.walk(tree) for name in files)
    return {f"/{path.relative_to(tree)}": path.read_bytes() for path in below}


def digest(content: Content) -> str:
    total = hashlib.sha256()
    for name in sorted(content):
        total.update(f"{name.replace('//', '/')}\0{len(content[name])}\0".encode())
        total.update(content[name])
    return total.hexdigest()


def once(reader: str, image: Path) -> None:
    """Prints the milliseconds that one reader takes, and what it found."""
    read = {**READERS, "host": by_host}[reader]
    read(image)  # Loads modules, and warms the host's cache.
    start = time.perf_counter()
    content = read(image)
    print((time.perf_counter() - start) * 1000, len(content), digest(content))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--image", type=Path)
    parser.add_argument("--reader", choices=[*READERS, "host"])
    arguments = parser.parse_args()
    if arguments.reader:
        once(arguments.reader, arguments.image)
        return
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in READERS}
    with tempfile.TemporaryDirectory() as scratch:
        image = arguments.image or Path(scratch, "files.img")
        if arguments.image is None:
            make(image, arguments.files)
        expected = None
        for turn in range(arguments.runs + 1):
            for name, read in list(READERS.items()):
                if name not in times:
                    continue
                start, worked = time.perf_counter(), time.process_time()
                try:
                    content = read(image)
                except ImportError as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    del times[name]
                    continue
                took = time.perf_counter() - start
                worked = time.process_time() - worked
                found = digest(content)
                expected = expected or found
                if found != expected:
                    sys.exit(f"{name}: read something else than the others")
                if turn > 0:  # The first warms the host's cache.
                    times[name].append((took, worked))
        print(f"{len(content)} files, {sum(map(len, content.values()))} bytes")
    medians = {
        name: [statistics.median(kind) * 1000 for kind in zip(*took, strict=True)]
        for name, took in times.items()
    }
    peer = medians.get("dissect.extfs")
    for name, (passed, worked) in medians.items():
        line = f"{name:20} {passed:9.1f} ms passed {worked:9.1f} ms worked"
        if peer:
            line += (
                f"   {peer[0] / passed:5.1f} and {peer[1] / worked:5.1f} times as fast"
            )
        print(line)


if __name__ == "__main__":
    main()

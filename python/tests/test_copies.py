# SPDX-License-Identifier: GPL-2.0-only
"""Promises about copies between an image and the host."""

from __future__ import annotations

import errno
import os
import signal
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import run
from tqdm import tqdm

import tane
from tane._file import RawFile


def tree(top: Path) -> None:
    (top / "d/empty").mkdir(parents=True)
    (top / "f").write_bytes(os.urandom(300_000))
    with (top / "d/holes").open("wb") as file:
        file.seek(5 << 20)
        file.write(b"data")
        file.truncate(9 << 20)
    (top / "d/link").symlink_to("../f")
    os.link(top / "f", top / "d/hard")
    os.mkfifo(top / "d/fifo")
    os.setxattr(top / "f", "user.note", b"kept")
    (top / "d").chmod(0o750)
    os.utime(top / "d/link", ns=(5, 6), follow_symlinks=False)
    os.utime(top / "f", ns=(1, 2))
    os.utime(top / "d", ns=(3, 4))


Facts = dict[str, tuple[object, ...]]


def facts(top: Path) -> Facts:
    """All that a copy keeps."""
    found: Facts = {}
    for path in [top, *sorted(top.rglob("*"))]:
        is_link, is_file = path.is_symlink(), path.is_file()
        s = path.lstat()
        names = os.listxattr(path, follow_symlinks=False)
        found[str(path.relative_to(top))] = (
            *(s.st_mode, s.st_mtime_ns, s.st_uid, s.st_gid),
            s.st_nlink if not stat.S_ISDIR(s.st_mode) else 0,
            os.readlink(path) if is_link else None,
            path.read_bytes() if is_file and not is_link else None,
            {n: os.getxattr(path, n, follow_symlinks=False) for n in names},
        )
    return found


def test_a_tree_comes_back_as_it_went_in(mount: tane.Mount, tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    tree(tmp_path / "tree")
    mount.copy_in(tmp_path / "tree", "/tree")
    (mount / "tree").copy_out(tmp_path / "back")
    assert facts(tmp_path / "back") == facts(tmp_path / "tree")
    for name in (mount / "tree/d/holes", tmp_path / "back/d/holes"):
        assert name.stat().st_blocks * 512 < 1 << 20


def test_a_copy_replaces_files_and_merges_directories(
    mount: tane.Mount, tmp_path: Path
) -> None:
    to = tmp_path / "to"
    (to / "dir").mkdir(parents=True)
    (to / "dir/other").write_text("stays")
    (to / "dir/inner").write_text("goes")
    mount.copy_out("/dir", to / "dir")
    assert (to / "dir/inner").read_text() == "deeper\n"
    assert (to / "dir/other").read_text() == "stays"
    with pytest.raises(IsADirectoryError):
        mount.copy_out("/hello", to / "dir")
    (mount / "dir/own").write_text("own")
    mount.copy_in(to / "dir", "/dir")
    assert (mount / "dir/other").read_text() == "stays"
    assert (mount / "dir/own").read_text() == "own"


def test_a_copy_follows_no_link_of_the_destination(
    mount: tane.Mount, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    to = tmp_path / "to"
    to.mkdir()
    (to / "dir").symlink_to(outside)
    (to / "hello").symlink_to(outside / "hello")
    with pytest.raises(FileExistsError):
        mount.copy_out("/dir", to / "dir")
    mount.copy_out("/hello", to / "hello")
    assert not (to / "hello").is_symlink()
    assert list(outside.iterdir()) == []


def test_progress_counts_bytes_up_to_the_total(
    mount: tane.Mount, tmp_path: Path
) -> None:
    (mount / "dir/large").write_bytes(bytes(5 << 20))
    seen: list[tuple[int, int]] = []
    mount.copy_out("/dir", tmp_path / "out", callback=lambda *at: seen.append(at))
    total = (5 << 20) + len("deeper\n")
    assert seen[0] == (0, total) and seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert len(seen) > 3


def test_callbacks_drive_tqdm(mount: tane.Mount, tmp_path: Path) -> None:
    with open(os.devnull, "w") as nowhere, tqdm(file=nowhere, unit="B") as bar:
        mount.copy_out("/hello", tmp_path / "out", callback=tane.drive(bar))
        assert (bar.n, bar.total) == (15, 15)


def test_what_a_callback_raises_ends_the_copy(
    mount: tane.Mount, tmp_path: Path
) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mount.copy_out("/dir", tmp_path / "out", callback=stop)


def test_a_signal_ends_a_copy_though_another_thread_writes(
    mount: tane.Mount, tmp_path: Path
) -> None:
    (mount / "dir/large").write_bytes(bytes(20 << 20))
    rang: list[int] = []

    def ring(*_: object) -> None:
        rang.append(1)
        raise KeyboardInterrupt

    def slow(done: int, _total: int) -> None:
        if done and threading.current_thread() is not threading.main_thread():
            if not rang:
                os.kill(os.getpid(), signal.SIGALRM)
            time.sleep(0.1)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(KeyboardInterrupt):
            mount.copy_out("/dir", tmp_path / "out", callback=slow)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not (tmp_path / "out/large").exists()
    assert mount.read_bytes("/hello") == b"from the image\n"


def test_a_call_that_a_signal_ended_ends_the_copy(
    jailed: tane.Mount, tmp_path: Path
) -> None:
    (jailed / "dir/large").write_bytes(bytes(20 << 20))
    pid = jailed.image.worker
    assert pid is not None
    stopped: list[int] = []

    def ring(*_: object) -> None:
        os.kill(pid, signal.SIGCONT)
        raise KeyboardInterrupt

    def stop(done: int, _total: int) -> None:
        if done and not stopped:
            stopped.append(1)
            os.kill(pid, signal.SIGSTOP)
            signal.setitimer(signal.ITIMER_REAL, 0.2)

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(KeyboardInterrupt):
            jailed.copy_out("/dir", tmp_path / "out", callback=stop)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not (tmp_path / "out/large").exists()
    assert jailed.read_bytes("/hello") == b"from the image\n"


def test_what_whole_trees_lose_is_told_with_its_count(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for n in range(15):
        (tree / f"{n:02}").write_bytes(b"data")
        (tree / f"{n:02}").chmod(0o640)
        os.setxattr(tree / f"{n:02}", "user.x", b"1")
    with tane.open(fat(tmp_path, 4), mode="rw") as mount:
        with pytest.warns(tane.LossWarning) as told:
            mount.copy_in(tree, "/tree")
        texts = [str(one.message) for one in told]
        modes = [text for text in texts if "its mode" in text]
        assert len(modes) == 1 and modes[0].endswith(" more)"), texts
        attributes = [text for text in texts if "user.x" in text]
        assert len(attributes) == 10, texts
        assert attributes[-1].endswith(" (and so of 5 more)"), texts
        assert not any("more)" in text for text in attributes[:-1])


@pytest.mark.filterwarnings("ignore::tane.LossWarning")
def test_what_the_destination_refuses_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    os.setxattr(tmp_path / "f", "user.x", b"1")
    with tane.open(fat(tmp_path, 4), mode="rw") as mount:
        with pytest.warns(tane.LossWarning, match=r"user\.x was left behind"):
            mount.copy_in(tmp_path / "f", "/f")
        assert mount.read_bytes("/f") == b"data"


def test_flags_and_projects_go_in_and_out(mount: tane.Mount, tmp_path: Path) -> None:
    no_dump, no_atime = 0x40, 0x80
    (mount / "tree/d").mkdir(parents=True)
    (mount / "tree/d/f").write_bytes(b"data")
    (mount / "tree/d/g").symlink_to("f")
    (mount / "tree/d/h").hardlink_to("/tree/d/f")

    def flags(path: str) -> int:
        with tane_file(mount, path) as file:
            return int(file.flags()[0]) & 0xF0

    with tane_file(mount, "/tree/d/f") as file:
        file.set_flags(file.flags()[0] | no_dump | no_atime)
    with tane_file(mount, "/tree/d") as file:
        file.set_flags(file.flags()[0] | no_dump)
    try:
        mount.copy_out("/tree", tmp_path / "out", strict=True)
    except tane.LossError as error:
        pytest.skip(f"the host's file system has no flags: {error}")
    mount.copy_in(tmp_path / "out", "/again", strict=True)
    assert flags("/again/d") == no_dump
    assert flags("/again/d/f") == no_dump | no_atime


def tane_file(mount: tane.Mount, path: str) -> Any:
    return RawFile(mount, path, os.O_RDONLY, 0)


def test_a_strict_copy_ends_where_something_would_be_lost(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    os.setxattr(tmp_path / "f", "user.x", b"1")
    with (
        tane.open(fat(tmp_path, 4), mode="rw") as mount,
        pytest.raises(tane.LossError, match="left behind") as raised,
    ):
        mount.copy_in(tmp_path / "f", "/f", strict=True)
    assert raised.value.errno in (errno.EPERM, errno.EOPNOTSUPP)


# linux/fs.h, linux/btrfs.h, and the numbers of x86-64's calls.
FICLONE, SUBVOL_CREATE = 0x4004_9409, 0x5000_940E
IOCTL = 16


def reflinks_and_a_subvolume(tmp_path: Path) -> Path:
    """A btrfs with /t: one file, another with the same blocks, and a subvolume."""
    image = tmp_path / "btrfs.img"
    with image.open("wb") as new:
        new.truncate(128 << 20)
    run("mkfs.btrfs", "-q", image)
    with tane.open(image, mode="rw", jail=False) as mount:
        (mount / "t").mkdir()
        (mount / "t/one").write_bytes(b"1" * 65536)
        (mount / "t/other").write_bytes(b"")
        (mount / "t/alone").write_bytes(b"2" * 65536)
        kernel = mount.image.kernel
        with tane_file(mount, "/t/one") as one, tane_file(mount, "/t") as top:
            with RawFile(mount, "/t/other", os.O_WRONLY, 0) as other:
                kernel.syscall(IOCTL, other.kernel_fd(), FICLONE, one.kernel_fd())
            # struct btrfs_ioctl_vol_args: a number without use, and a name.
            name = bytes(8) + b"sub".ljust(4088, b"\0")
            kernel.syscall(IOCTL, top.kernel_fd(), SUBVOL_CREATE, name)
        (mount / "t/sub/f").write_bytes(b"inside")
    return image


def test_reflinks_and_subvolumes_that_a_copy_lacks_are_warnings_or_errors(
    tmp_path: Path,
) -> None:
    image = reflinks_and_a_subvolume(tmp_path)
    with tane.open(image) as mount:
        with pytest.warns(tane.LossWarning) as told:
            mount.copy_out("/t", tmp_path / "out")
        texts = sorted(str(one.message) for one in told)
        assert len(texts) == 2, texts
        assert texts[0].startswith(("one: its reflink", "other: its reflink"))
        assert texts[1].startswith("sub: its subvolume was left behind")
        assert (tmp_path / "out/other").read_bytes() == b"1" * 65536
        assert (tmp_path / "out/sub/f").read_bytes() == b"inside"
        for path in ["sub", ""]:
            with pytest.raises(tane.LossError, match="left behind"):
                mount.copy_out(f"/t/{path}", tmp_path / f"strict{path}", strict=True)
        mount.copy_out("/t/alone", tmp_path / "alone", strict=True)


def test_what_a_file_system_has_otherwise_is_a_warning_or_an_error(
    tmp_path: Path,
) -> None:
    for name in "ab":
        (tmp_path / "t").mkdir(exist_ok=True)
        (tmp_path / "t" / name).write_bytes(b"data")
        os.utime(tmp_path / "t" / name, ns=(10**18 + 1, 10**18 + 1))
    os.utime(tmp_path / "t", ns=(10**18, 10**18))
    image = tmp_path / "short.img"
    with image.open("wb") as new:
        new.truncate(16 << 20)
    run("mkfs.ext4", "-qFI", "128", image)
    with tane.open(image, mode="rw") as mount:
        with pytest.warns(tane.LossWarning) as told:
            mount.copy_in(tmp_path / "t", "/t")
        assert [str(one.message)[1:19] for one in told] == [": its exact times "]
        with pytest.raises(tane.LossError, match="exact times"):
            mount.copy_in(tmp_path / "t/a", "/again", strict=True)
        os.utime(tmp_path / "t/a", ns=(10**18, 10**18))
        mount.copy_in(tmp_path / "t/a", "/again", strict=True)


def fat(tmp_path: Path, mib: int) -> Path:
    image = tmp_path / "fat.img"
    with image.open("wb") as new:
        new.truncate(mib << 20)
    run("mkfs.vfat", image)
    return image


@pytest.mark.filterwarnings("ignore::tane.LossWarning")
def test_a_file_that_does_not_fit_costs_only_itself(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "d").mkdir(parents=True)
    with (tree / "d/large").open("wb") as file:
        file.truncate(64 << 20)
    (tree / "a:b").write_bytes(b"no name there")
    for n in range(100):
        (tree / f"d/small{n}").write_bytes(b"small")
    image = fat(tmp_path, 4)
    with tane.open(image, mode="rw") as mount:
        with pytest.raises(tane.CopyError, match="2 not copied") as raised:
            mount.copy_in(tree, "/tree")
        missing = {path: error.errno for path, error in raised.value.errors}
        assert missing == {"d/large": errno.ENOSPC, "a:b": errno.EINVAL}
        assert not raised.value.stopped
        assert len(mount.listdir("/tree/d")) == 100
        assert mount.listdir("/tree") == ["d"]
    run("fsck.vfat", "-n", image)


@pytest.mark.filterwarnings("ignore::tane.LossWarning")
def test_a_full_destination_ends_the_copy_and_all_that_is_missing_is_named(
    tmp_path: Path,
) -> None:
    tree = tmp_path / "tree"
    wanted = set()
    for n in range(600):
        path = f"d{n % 3}/file{n}"
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(bytes(3000))
        wanted.add(path)
    image = fat(tmp_path, 1)
    with tane.open(image, mode="rw") as mount:
        with pytest.raises(tane.CopyError) as raised:
            mount.copy_in(tree, "/tree")
        assert raised.value.stopped and raised.value.errno == errno.ENOSPC
        missing = {path for path, _ in raised.value.errors if "file" in path}
        top = mount / "tree"
        found = {str(p.relative_to(top)) for p in top.rglob("file*")}
        assert len(found) > 100 and not found & missing
        assert found | missing == wanted
        assert not list(top.rglob("*.part"))
    run("fsck.vfat", "-n", image)


def test_without_links_each_name_is_a_file_and_that_is_told(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "one").write_bytes(b"linked")
    os.link(tree / "one", tree / "other")
    (tree / "soft").symlink_to("one")
    with tane.open(fat(tmp_path, 4), mode="rw") as mount:
        with pytest.warns(tane.LossWarning) as told:
            mount.copy_in(tree, "/tree")
        said = " ".join(str(one.message) for one in told)
        assert "its hard link was left behind" in said
        assert "soft: it (a symlink) was left behind" in said
        assert sorted(mount.listdir("/tree")) == ["one", "other"]
        assert mount.read_bytes("/tree/other") == b"linked"


def test_a_file_that_fails_leaves_what_was_there(
    mount: tane.Mount, tmp_path: Path
) -> None:
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    (tmp_path / "hello").write_bytes(b"new" * (3 << 20))
    with pytest.raises(KeyboardInterrupt):
        mount.copy_in(tmp_path / "hello", "/hello", callback=stop)
    assert mount.read_bytes("/hello") == b"from the image\n"
    assert sorted(mount.listdir("/")) == ["dir", "hello", "lost+found"]


@pytest.mark.filterwarnings("ignore::tane.LossWarning")
def test_ntfs_keeps_holes_both_ways(tmp_path: Path) -> None:
    image = tmp_path / "ntfs.img"
    with image.open("wb") as new:
        new.truncate(16 << 20)
    run("mkfs.ntfs", "-q", "-F", image)
    with (tmp_path / "f").open("wb") as file:
        file.truncate(100 << 20)
        file.seek(99 << 20)
        file.write(b"data")
    with tane.open(image, mode="rw") as mount:
        mount.copy_in(tmp_path / "f", "/f")
    with tane.open(image) as mount:
        mount.copy_out("/f", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "f").read_bytes()
    assert (tmp_path / "back").stat().st_blocks * 512 < 1 << 20
    said = run("ntfsinfo", "-F", "/f", image)
    assert "SPARSE_FILE" in said and run("ntfscat", image, "f").count("data") == 1

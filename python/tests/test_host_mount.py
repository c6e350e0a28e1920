# SPDX-License-Identifier: GPL-2.0-only
"""Promises about mounts that the host's programs see, which are the judges."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import MakeImage, fsck, run

import tane

FILES = {"etc/hostname": b"seed\n", "d/large": bytes(range(256)) * 8192, "empty": b""}


@pytest.fixture
def point(tmp_path: Path) -> Path:
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        pytest.skip(f"/dev/fuse: {error.strerror}")
    if os.geteuid() != 0:
        pytest.skip("takes root")
    made = tmp_path / "mnt"
    made.mkdir()
    return made


@pytest.mark.parametrize("jail", [True, False])
def test_the_hosts_programs_see_what_is_in_the_image(
    make_image: MakeImage, tmp_path: Path, point: Path, jail: bool
) -> None:
    with tane.open(make_image(FILES), jail=jail) as mount:
        with mount.host_mount(point) as shown:
            assert shown.point == str(point)
            tree = tmp_path / "disk.img.tree"
            run("diff", "-r", "-x", "lost+found", tree, point)
            assert (point / "etc/hostname").read_text() == "seed\n"
            with pytest.raises(OSError) as refused:
                (point / "new").touch()
            assert refused.value.errno == errno.EROFS
            assert not shown.wait(0)
        assert not list(point.iterdir())
        assert "unmounted" in repr(shown)
        with mount.host_mount(point, directory="/etc", source="of a test"):
            assert [p.name for p in point.iterdir()] == ["hostname"]
            assert "of\\040a\\040test" in Path("/proc/self/mounts").read_text()
        # It is as it was, for this process.
        assert mount.read_bytes("etc/hostname") == b"seed\n"


@pytest.mark.parametrize("jail", [True, False])
def test_what_the_hosts_programs_write_is_in_the_image(
    make_image: MakeImage, tmp_path: Path, point: Path, jail: bool
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in range(100):
        (source / str(name)).write_bytes(str(name).encode() * name)
    (source / "link").symlink_to("99")
    os.chown(source / "42", 1234, 56)
    image = make_image({})
    with tane.open(image, mode="rw", jail=jail) as mount:
        # Closed with its mount.
        mount.host_mount(point)
        run("cp", "-a", source, point)
    assert not list(point.iterdir())
    fsck(image)
    run("debugfs", "-R", f"rdump /source {point}", image)
    run("diff", "-r", "--no-dereference", source, point / "source")
    said = run("debugfs", "-R", "stat /source/42", image).split()
    assert said[said.index("User:") + 1] == "1234"


def test_what_is_in_use_stays_until_it_is_not(
    make_image: MakeImage, point: Path
) -> None:
    with tane.open(make_image(FILES)) as mount:
        shown = mount.host_mount(point)
        with (point / "d/large").open("rb") as file:
            with pytest.raises(OSError) as busy:
                shown.close()
            assert busy.value.errno == errno.EBUSY
            assert busy.value.filename == str(point)
            assert file.read() == FILES["d/large"]
        shown.close()
        shown.close()
        with pytest.raises(ValueError):
            shown.wait()


def test_what_cannot_be_shown_is_named(make_image: MakeImage, point: Path) -> None:
    image = make_image(FILES)
    with tane.open(image) as mount:
        with pytest.raises(NotADirectoryError) as error:
            mount.host_mount(image)
        assert error.value.filename == str(image)
        with pytest.raises(FileNotFoundError):
            mount.host_mount(point / "none")
        with pytest.raises(FileNotFoundError, match="/missing"):
            mount.host_mount(point, directory="/missing")
        with pytest.raises(ValueError, match="null"):
            mount.host_mount("a\0b")
        assert not list(point.iterdir())
    with pytest.raises(ValueError, match="closed"):
        mount.host_mount(point)


def test_without_fuse_on_the_host_the_error_says_what_to_do(
    make_image: MakeImage, tmp_path: Path, point: Path
) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/null").touch()
    script = f"""
import tane
with tane.open({str(make_image(FILES))!r}) as mount:
    try:
        mount.host_mount({str(point)!r})
    except FileNotFoundError as error:
        print(error)
"""
    # As in a container that the device was not passed on to.
    hidden = 'mount --bind "$1" /dev && exec "$2" -P -c "$3"'
    words: list[str | Path] = ["sh", tmp_path / "dev", sys.executable, script]
    said = run("unshare", "-m", "sh", "-c", hidden, *words)
    assert "/dev/fuse" in said and "modprobe fuse" in said


def test_it_ends_with_its_process_and_not_with_a_fork(
    make_image: MakeImage, point: Path
) -> None:
    script = f"""
import os, sys, tane
mount = tane.open({str(make_image(FILES))!r})
shown = mount.host_mount({str(point)!r})
child = os.fork()
if not child:
    # A child that ends as programs do, with all that it has inherited.
    del shown, mount
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert os.listdir({str(point)!r})
print("shown")
"""
    assert run(sys.executable, "-P", "-c", script) == "shown\n"
    # Neither something there nor a mount whose server is gone.
    assert not list(point.iterdir())


def test_who_waits_hears_of_the_end_and_of_signals(
    make_image: MakeImage, point: Path
) -> None:
    with tane.open(make_image(FILES)) as mount:
        shown = mount.host_mount(point)
        waited = []
        thread = threading.Thread(target=lambda: waited.append(shown.wait()))
        thread.start()
        run("umount", point)
        thread.join()
        assert waited == [True]
        shown.close()

        shown = mount.host_mount(point)

        def interrupt(_number: int, _frame: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                shown.wait()
        finally:
            signal.signal(signal.SIGALRM, before)
        shown.close()


def test_an_interrupted_program_does_not_interrupt_the_hosts(
    make_image: MakeImage, point: Path
) -> None:
    """While Linux stands still the main thread is interrupted, and others' reads go on
    when it does."""
    with tane.open(make_image(FILES)) as mount, mount.host_mount(point):
        worker = mount.image.worker
        assert worker is not None

        def interrupt(_number: int, _frame: object) -> None:
            raise KeyboardInterrupt

        os.kill(worker, signal.SIGSTOP)
        reader = subprocess.Popen(["cat", point / "d/large"], stdout=subprocess.PIPE)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                mount.read_bytes("etc/hostname")
        finally:
            signal.signal(signal.SIGALRM, before)
            time.sleep(0.1)
            os.kill(worker, signal.SIGCONT)
        assert reader.communicate()[0] == FILES["d/large"]
        assert reader.returncode == 0

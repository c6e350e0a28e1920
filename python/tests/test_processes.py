# SPDX-License-Identifier: GPL-2.0-only
"""Promises about other processes: forks, spawned ones, and the end."""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from conftest import fsck

import tane

# Whoever takes longer hangs.
PATIENCE = 120


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Not from here, where Python would find the sources of the package."""
    return subprocess.run(
        command, cwd="/", capture_output=True, text=True, timeout=PATIENCE
    )


def in_child(work: Callable[[], None]) -> int:
    """Its exit code: 0 if work() returned."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(PATIENCE)
            work()
            code = 0
        except BaseException as error:
            print(f"in the child: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_fork_is_told_why_it_can_not(mount: tane.Mount) -> None:
    file = mount.open("hello", "rb")

    def work() -> None:
        calls: list[Callable[[], object]] = [
            lambda: mount.read_bytes("hello"),
            lambda: mount.read_many(["hello"]),
            lambda: mount.listdir(),
            lambda: (mount / "new").mkdir(),
            lambda: file.read(),
            lambda: mount.sync(),
            lambda: mount.kernel.syscall(39),
            lambda: tane.open(mount.image.path, kernel=mount.kernel),
        ]
        for call in calls:
            try:
                call()
            except tane.ForkError as error:
                assert error.errno == errno.ENOTSUP
                assert "spawn" in str(error)
            else:
                raise AssertionError("it could")

    assert in_child(work) == 0
    assert file.read() == b"from the image\n"
    file.close()


def test_a_fork_that_drops_everything_leaves_its_parent_alone(image: Path) -> None:
    kernel = tane.Kernel()
    mount = tane.open(image, mode="rw", kernel=kernel)
    file = mount.open("hello", "rb")

    def work() -> None:
        nonlocal mount, kernel, file
        file.close()
        mount.close()
        kernel.close()
        del mount, kernel, file

    assert in_child(work) == 0
    # Nothing of this is in a cache.
    (mount / "new").write_bytes(os.urandom(1 << 20))
    mount.sync()
    assert (mount / "hello").read_text() == "from the image\n"
    file.close()
    mount.close()
    kernel.close()
    fsck(image)


def test_a_fork_can_open_for_itself(image: Path) -> None:
    with tane.open(image) as mount:

        def work() -> None:
            with tane.open(image) as own:
                assert own.read_bytes("hello") == b"from the image\n"

        assert in_child(work) == 0
        assert mount.read_bytes("hello") == b"from the image\n"


def test_a_forked_program_ends_in_order(image: Path) -> None:
    """With destructors and exit handlers, unlike the children above."""
    program = """
        import os, sys, tane, fsspec
        fs = fsspec.filesystem("tane", image=sys.argv[1], writable=True)
        fs.pipe_file("/a", b"parent")
        mount = tane.open(sys.argv[2])
        pid = os.fork()
        if pid == 0:
            own = tane.open(sys.argv[2])
            assert own.read_bytes("/hello")
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert mount.read_bytes("/hello")
        fs.pipe_file("/b", b"parent")
    """
    copy = image.with_name("copy.img")
    copy.write_bytes(image.read_bytes())
    command = [sys.executable, "-c", textwrap.dedent(program), str(image), str(copy)]
    done = run(command)
    assert (done.returncode, done.stderr) == (0, "")
    fsck(image)
    with tane.open(image) as mount:
        assert mount.read_many(["/a", "/b"]) == [b"parent"] * 2


def test_fsspec_opens_again_after_a_fork(image: Path) -> None:
    fs: Any = fsspec.filesystem("tane", image=str(image), skip_instance_cache=True)
    assert fs.cat("/hello") == b"from the image\n"

    def work() -> None:
        assert fs.cat("/hello") == b"from the image\n"

    assert in_child(work) == 0
    assert fs.cat("/hello") == b"from the image\n"
    fs.close()
    written: Any = fsspec.filesystem(
        "tane", image=str(image), writable=True, skip_instance_cache=True
    )
    written.touch("/new")

    def refused() -> None:
        with pytest.raises(tane.ForkError):
            written.ls("/")

    assert in_child(refused) == 0
    written.close()
    fsck(image)


def read_one(url: str) -> bytes:
    with fsspec.open(url) as file:
        return bytes(file.read())


def test_multiprocessing_with_spawn_works(image: Path) -> None:
    with (
        tane.open(image) as mount,
        multiprocessing.get_context("spawn").Pool(2) as pool,
    ):
        urls = [f"tane://{(mount / name).address}" for name in ("hello", "dir/inner")]
        found = pool.map_async(read_one, urls).get(timeout=PATIENCE)
        assert found == mount.read_many(["hello", "dir/inner"])


def test_an_interrupt_comes_through(mount: tane.Mount) -> None:
    data = bytes(1 << 20)

    def alarm(*_: object) -> None:
        raise TimeoutError("it rang")

    before = signal.signal(signal.SIGALRM, alarm)
    try:
        # One file, so that the signal never comes between an open() and who closes it.
        with (mount / "f").open("wb", buffering=0) as file:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(TimeoutError, match="it rang"):
                while True:
                    file.seek(0)
                    file.write(data)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (mount / "hello").read_text() == "from the image\n"


def test_faulthandler_and_tane_get_along(image: Path) -> None:
    """Both handle SIGSEGV, whichever comes first."""
    program = """
        import faulthandler, sys, tane
        if sys.argv[2] == "first":
            faulthandler.enable()
        with tane.open(sys.argv[1], jail=False) as mount:
            if sys.argv[2] == "later":
                faulthandler.enable()
                faulthandler.disable()
            # A bad pointer is an exception of the kernel's inside.
            try:
                mount.kernel.syscall(63, 1)
            except OSError as error:
                print(error.errno)
    """
    for when in ("first", "later"):
        command = [sys.executable, "-c", textwrap.dedent(program), str(image), when]
        done = run(command)
        assert (done.returncode, done.stdout) == (0, f"{errno.EFAULT}\n"), done.stderr

# SPDX-License-Identifier: GPL-2.0-only
"""Promises about the process that serves an image by default."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeImage, fsck

import tane

# Whoever takes longer hangs.
PATIENCE = 120


def stop(pid: int) -> None:
    """All its threads stand still when this returns: none answers a call."""
    os.kill(pid, signal.SIGSTOP)
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.001)


def worker(mount: tane.Mount) -> int:
    pid = mount.image.worker
    assert pid is not None
    return pid


def test_an_image_is_jailed_unless_told_otherwise(image: Path) -> None:
    with tane.open(image) as mount:
        pid = worker(mount)
        for task in Path(f"/proc/{pid}/task").iterdir():
            status = (task / "status").read_text()
            assert "\nNoNewPrivs:\t1\n" in status
            assert "\nSeccomp:\t2\n" in status
        # Nothing of Linux is here.
        assert "tane-ram" not in Path("/proc/self/maps").read_text()
    assert not Path(f"/proc/{pid}").exists()
    with tane.open(image, jail=False) as mount:
        assert mount.image.worker is None
        assert mount.kernel.syscall(39) == 1
    with tane.Kernel() as kernel, tane.open(image, kernel=kernel) as mount:
        assert mount.image.worker is None
        with pytest.raises(ValueError, match="in no jail"):
            tane.open(image, kernel=kernel, jail=True)
    with pytest.raises(ValueError, match="only a jail has limits"):
        tane.open(image, jail=False, time_limit=1)


def test_the_kernel_of_a_jailed_image_tells_of_itself(image: Path) -> None:
    with tane.open(image, memory=128 << 20) as mount:
        assert mount.kernel.is_alive
        assert "Linux version" in mount.kernel.dmesg()
        with pytest.raises(OSError, match="pass jail=False") as refused:
            mount.kernel.syscall(39)
        assert refused.value.errno == errno.EOPNOTSUPP
        mount.kernel.halt()
        assert not mount.kernel.is_alive
        assert mount.kernel.last_words() == "halted"
        with pytest.raises(tane.KernelError):
            mount.read_bytes("hello")
        with pytest.raises(tane.KernelError):
            mount.close()


def test_a_worker_that_is_killed_is_an_error(image: Path) -> None:
    mount = tane.open(image)
    file = mount.open("hello", "rb", 0)
    failed = []

    def read() -> None:
        try:
            while True:
                mount.read_bytes("hello")
        except tane.KernelError as error:
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    os.kill(worker(mount), signal.SIGKILL)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert len(failed) == 4
    for error in failed:
        assert error.errno == errno.ESHUTDOWN
        assert "the jailed kernel has ended: killed by SIGKILL" in str(error)
    with pytest.raises(tane.KernelError):
        file.read()
    file.close()
    with pytest.raises(tane.KernelError, match="SIGKILL"):
        mount.close()


def test_a_time_limit_holds(image: Path) -> None:
    mount = tane.open(image, time_limit=1.5)
    end = time.monotonic() + PATIENCE
    with pytest.raises(tane.KernelError, match=r"ran past its time limit of 1\.5s"):
        while time.monotonic() < end:
            mount.read_bytes("hello")
    with pytest.raises(tane.KernelError):
        mount.close()


def test_an_interrupt_ends_the_wait_for_a_silent_worker(image: Path) -> None:
    class Rang(Exception):
        pass

    def ring(*_: object) -> None:
        raise Rang

    mount = tane.open(image)
    before = signal.signal(signal.SIGALRM, ring)
    stop(worker(mount))
    try:
        calls: list[Callable[[], object]] = [
            mount.listdir,
            mount.image.kernel.dmesg,
            mount.sync,
            mount.close,
        ]
        for call in calls:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(Rang):
                call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert mount.image is not None


def test_a_call_that_was_given_up_keeps_no_file_open(image: Path) -> None:
    def ring(*_: object) -> None:
        raise TimeoutError

    kept = []
    before = signal.signal(signal.SIGALRM, ring)
    gc.disable()
    try:
        with tane.open(image, mode="rw") as mount:
            pid = worker(mount)
            for call in ("write", "read", "pread", "truncate", "sync", "stat"):
                file: Any = mount.open("f", "wb+", 0)
                arguments = {"write": (bytes(1 << 20),), "pread": (1, 0)}.get(call, ())
                stop(pid)
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                with pytest.raises(TimeoutError) as given_up:
                    getattr(file, call)(*arguments)
                # Its traceback has the variables of whoever was in the call.
                kept.append(given_up)
                os.kill(pid, signal.SIGCONT)
                file.close()
        # It was unmounted: nothing of it was busy.
    finally:
        gc.enable()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(kept) == 6
    fsck(image)


def test_an_image_is_free_whoever_keeps_an_error_of_it(image: Path) -> None:
    gc.disable()
    try:
        with (
            tane.Image(image, mode="rw") as opened,
            pytest.raises(tane.SelectorError) as error,
        ):
            opened.mount("7")
        with pytest.raises(tane.SelectorError) as again:
            tane.open(image, "7", "rw")
        tane.open(image, mode="rw").close()
    finally:
        gc.enable()
    assert error.value.choices == again.value.choices


def test_a_signal_whose_handler_returns_interrupts_nothing(image: Path) -> None:
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    with tane.open(image) as mount:
        pid = worker(mount)
        stop(pid)
        timer = threading.Timer(0.5, os.kill, (pid, signal.SIGCONT))
        timer.start()
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            assert "hello" in mount.listdir()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            timer.join()
    assert rang == [1]


def test_a_program_that_ends_leaves_no_worker(image: Path) -> None:
    program = """
import os, sys, tane
mount = tane.open(sys.argv[1])
print(mount.image.worker, flush=True)
if sys.argv[2] == "kill":
    os.kill(os.getpid(), 9)
"""
    for how in ("exit", "kill"):
        done = subprocess.run(
            [sys.executable, "-c", program, str(image), how],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        stat = Path(f"/proc/{int(done.stdout)}/stat")
        end = time.monotonic() + PATIENCE
        while stat.exists() and ") Z " not in stat.read_text():
            assert time.monotonic() < end
            time.sleep(0.01)


def test_a_missing_worker_says_what_to_do(image: Path) -> None:
    program = "import sys, tane; tane.open(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(image)],
        env={**os.environ, "TANE_WORKER": "/none"},
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert "FileNotFoundError" in done.stderr
    assert "start the worker /none" in done.stderr


def test_a_walk_that_is_pruned_or_reordered_goes_where_it_is_told(
    make_image: MakeImage,
) -> None:
    names = [f"{a}/{b}/{c}" for a in "abc" for b in "de" for c in "fg"]
    image = make_image({name: name.encode() for name in names})
    with tane.open(image) as mount, tane.open(image, jail=False) as here:
        tree = list(mount.walk())
        assert tree == list(here.walk())
        assert {f"{top}/{n}"[1:] for top, _, files in tree for n in files} == set(names)
        relative = [top for top, _, _ in mount.walk("a")]
        assert sorted(relative) == ["a", "a/d", "a/e"]
        seen = []
        for top, dirs, _ in mount.walk():
            seen.append(top)
            if top == "/":
                dirs[:] = ["c", "a"]
            elif top == "/a":
                dirs.remove("d")
        assert sorted(seen[1:4]) == ["/c", "/c/d", "/c/e"]
        assert seen[4:] == ["/a", "/a/e"]
        with mount.scandir("a", stat=True) as entries:
            found = {entry.name: entry.stat().st_ino for entry in entries}
        assert found == {name: mount.stat(f"a/{name}").st_ino for name in "de"}

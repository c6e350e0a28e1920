# SPDX-License-Identifier: GPL-2.0-only
"""Promises about checked code. tests/support/module.c is the module."""

from __future__ import annotations

import errno
import faulthandler
import gc
import os
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import MakeImage

import tane

TOP = Path(__file__).parent.parent.parent


@pytest.fixture(scope="session")
def module(module_file: Path) -> tane.Module:
    return tane.Module(module_file.read_bytes())


@pytest.fixture(scope="module")
def kernel() -> Iterator[tane.Kernel]:
    with tane.Kernel() as kernel:
        yield kernel


def twice(of: int) -> int:
    return 2 * of


@pytest.fixture
def instance(module: tane.Module, kernel: tane.Kernel) -> Iterator[tane.Instance]:
    with module.instance(
        kernel=kernel, directory="/", imports={"twice": twice}, time_limit=0.2
    ) as instance:
        yield instance


def test_what_breaks_a_rule_is_no_module() -> None:
    with pytest.raises(tane.ModuleError, match=r"^R1: this is no module"):
        tane.Module(b"something else")


def test_functions_are_called_with_integers(
    module: tane.Module, instance: tane.Instance
) -> None:
    assert {"add", "quadruple"} <= set(module.exports)
    assert {"twice", "openat"} <= set(module.imports)
    assert instance.call("add", 2, -5) == -3
    assert instance.call("add", 1 << 63, 0) == -(1 << 63)
    assert instance.call("quadruple", 5) == 20
    with pytest.raises(FileNotFoundError):
        instance.call("none")
    with pytest.raises(OSError, match="6 are the most") as refused:
        instance.call("add", *range(7))
    assert refused.value.errno == errno.E2BIG


@pytest.mark.parametrize(
    ("function", "argument", "kind"),
    [
        ("store", 0, "memory"),
        ("deep", 0, "stack"),
        ("divide", 1, "divide"),
        ("unreachable", 0, "unreachable"),
        ("by_pointer", 0, "call"),
        ("for_ever", 0, "time"),
        ("leaves", 7, "exit"),
    ],
)
def test_faults_are_traps_after_which_it_goes_on(
    instance: tane.Instance, function: str, argument: int, kind: str
) -> None:
    assert faulthandler.is_enabled()
    for _ in range(3):
        with pytest.raises(tane.Trap) as trap:
            instance.call(function, argument)
        assert trap.value.kind == kind
        assert trap.value.code == (7 if kind == "exit" else 0)
        if kind == "divide":
            assert trap.value.function == "divide"
            assert trap.value.file is not None
            assert trap.value.file.endswith("module.c")
            assert trap.value.line is not None
            lines = (TOP / "tests/support/module.c").read_text().splitlines()
            assert lines[trap.value.line - 1] == "\treturn a / by;"
        assert instance.call("quadruple", 1) == 4


def test_memory_is_read_and_written_within_bounds(instance: tane.Instance) -> None:
    at = instance.call("words")
    instance.write(at, b"12345678")
    assert instance.read(at, 8) == b"12345678"
    constant = instance.call("constant")
    assert instance.read(constant, 15) == b"from the module"
    for wrong in (
        lambda: instance.write(constant, b"x"),
        lambda: instance.write(-1, b"x"),
        lambda: instance.read(0, 1),
        lambda: instance.read(1 << 40, 1),
        lambda: instance.read(instance.heap.stop - 1, 2),
        lambda: instance.read(at, 1 << 60),
    ):
        with pytest.raises(IndexError):
            wrong()
    assert instance.call("heap") == instance.heap.start
    given = instance.give(b"some words\0")
    assert instance.call("length", given) == 10
    instance.write(instance.heap.start, b"")


def test_an_exception_of_an_import_ends_the_call(module: tane.Module) -> None:
    seen = []

    def fails(of: int, *others: int) -> int:
        seen.append((of, others))
        raise LookupError(of)

    with tane.Kernel() as kernel:
        instance = module.instance(
            kernel=kernel, directory="/", imports={"twice": fails}
        )
        for value in (3, 4):
            with pytest.raises(LookupError, match=str(value)):
                instance.call("quadruple", value)
        # The function that would have come second was not called.
        assert [of for of, _ in seen] == [3, 4]
        assert len(seen[0][1]) == 5
        assert instance.call("add", 1, 2) == 3
        instance.close()
        instance.close()
        with pytest.raises(ValueError, match="closed"):
            instance.call("add", 1, 2)


def test_an_import_does_not_call_its_module(
    module: tane.Module, kernel: tane.Kernel
) -> None:
    errors: list[BaseException] = []

    def again(of: int) -> int:
        for attempt in (lambda: own.call("add", 1, 2), own.close):
            try:
                attempt()
            except (OSError, ValueError) as error:
                errors.append(error)
        return own.read(own.heap.start, 1)[0] + of

    own = module.instance(kernel=kernel, directory="/", imports={"twice": again})
    assert own.call("quadruple", 1) == 1
    assert [type(error) for error in errors] == [OSError, ValueError] * 2
    own.close()


def test_what_it_imports_must_be_given(
    module: tane.Module, kernel: tane.Kernel
) -> None:
    with pytest.raises(OSError, match="it imports") as refused:
        module.instance()
    assert refused.value.errno == errno.ENOSYS
    with pytest.raises(OSError, match="it imports twice"):
        module.instance(kernel=kernel, directory="/")
    with pytest.raises(OSError, match="it imports"):
        module.instance(
            kernel=kernel, directory="/", imports={"twice": twice}, calls=["read"]
        )
    with pytest.raises(OSError, match="execve") as refused:
        module.instance(kernel=kernel, directory="/", calls=["execve"])
    assert refused.value.errno == errno.EINVAL


def test_it_is_used_on_its_thread_and_stopped_from_another(
    module: tane.Module, kernel: tane.Kernel
) -> None:
    instance = module.instance(
        kernel=kernel, directory="/", imports={"twice": twice}, time_limit=3600
    )
    errors: list[BaseException] = []

    def other() -> None:
        try:
            instance.call("add", 1, 2)
        except RuntimeError as error:
            errors.append(error)
        time.sleep(0.05)
        instance.stop()

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(tane.Trap) as trap:
        instance.call("for_ever")
    thread.join()
    assert trap.value.kind == "time"
    assert len(errors) == 1


def test_whoever_drops_the_last_reference_ends_it(
    module: tane.Module, kernel: tane.Kernel
) -> None:
    holder = [module.instance(kernel=kernel, directory="/", imports={"twice": twice})]
    gone = weakref.ref(holder[0])
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()
    gc.collect()
    assert gone() is None
    with module.instance(
        kernel=kernel, directory="/", imports={"twice": twice}
    ) as instance:
        assert instance.call("quadruple", 1) == 4


def test_threads_have_instances_of_one_module(
    module: tane.Module, kernel: tane.Kernel
) -> None:
    results: list[int] = []

    def work() -> None:
        with module.instance(
            kernel=kernel, directory="/", imports={"twice": twice}
        ) as own:
            for number in range(20):
                with pytest.raises(tane.Trap):
                    own.call("deep", 0)
                results.append(own.call("quadruple", number))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted([4 * n for n in range(20)] * 4)


def test_a_child_of_fork_cannot_use_it(instance: tane.Instance) -> None:
    child = os.fork()
    if child == 0:
        try:
            instance.call("add", 1, 2)
        except tane.ForkError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert instance.call("add", 1, 2) == 3


def test_it_reads_files_of_a_mount_and_no_others(
    module: tane.Module, make_image: MakeImage
) -> None:
    image = make_image({"hello": b"from the image\n"})
    with (
        tane.open(image, jail=False) as mount,
        module.instance(mount=mount, imports={"twice": twice}) as instance,
    ):
        path = instance.give(b"/hello\0")
        assert instance.call("count", path) == 15
        path = instance.give(b"../../proc/version\0")
        assert instance.call("count", path) == -errno.ENOENT
    with (
        tane.open(image) as mount,
        pytest.raises(OSError, match="process of its own") as refused,
    ):
        module.instance(mount=mount, imports={"twice": twice})
    assert refused.value.errno == errno.EOPNOTSUPP

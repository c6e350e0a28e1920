# SPDX-License-Identifier: GPL-2.0-only
"""Promises about traces, of the kernel image lab."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import tane

LAB = Path(__file__).parent.parent.parent / "build/images/tane-lab.elf"
OPEN = 2


@pytest.fixture
def lab() -> Iterator[tane.Kernel]:
    if not LAB.is_file():
        assert "CI" not in os.environ, LAB
        pytest.skip(f"no {LAB}")
    with tane.Kernel(image=LAB) as kernel:
        yield kernel


def look(kernel: tane.Kernel) -> None:
    with pytest.raises(FileNotFoundError):
        kernel.syscall(OPEN, b"/none\0", 0)


def test_a_context_gives_a_table_of_functions(lab: tane.Kernel) -> None:
    look(lab)
    with lab.trace() as trace:
        look(lab)
        with pytest.raises(ValueError, match="has not ended"):
            _ = trace.calls
        with pytest.raises(OSError, match="already") as refused:
            lab.trace()
        assert refused.value.errno == errno.EBUSY
    look(lab)
    opened = [call for call in trace.calls if call.function == "do_filp_open"]
    assert [call.errno for call in opened] == [errno.ENOENT]
    assert trace.lost == 0
    rows = {row[0]: row[1:] for row in trace.table()}
    count, total, own = rows["do_filp_open"]
    assert (count, total, own) == (1, opened[0].duration, opened[0].own)
    assert own < total
    assert sum(row[1] for row in trace.table()) == len(trace.calls)
    assert "  do_filp_open" in str(trace)


def test_what_is_recorded_is_chosen(lab: tane.Kernel) -> None:
    with lab.trace("do_filp_open", depth=2) as trace:
        look(lab)
    assert [call.depth for call in trace.calls][:2] == [0, 1]
    assert {call.depth for call in trace.calls} == {0, 1}
    with pytest.raises(OSError, match="no_such_function") as refused:
        lab.trace("no_such_function")
    assert refused.value.errno == errno.EINVAL


def test_other_images_have_no_tracers() -> None:
    with tane.Kernel() as kernel, pytest.raises(OSError, match="image lab") as refused:
        kernel.trace()
    assert refused.value.errno == errno.ENOTSUP

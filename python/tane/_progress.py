# SPDX-License-Identifier: GPL-2.0-only
"""How far a copy is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

Progress: TypeAlias = Callable[[int, int], object]


class Bar(Protocol):
    """What is needed of tqdm.tqdm."""

    n: Any
    total: Any

    def update(self, n: Any = ...) -> Any: ...
    def refresh(self) -> Any: ...


def drive(bar: Bar) -> Progress:
    """A callback that moves a bar of tqdm.

    >>> with tqdm(unit="B", unit_scale=True) as bar:
    ...     mount.copy_out("/var/log", "log", callback=tane.drive(bar))
    """

    def move(done: int, total: int) -> None:
        if bar.total != total:
            bar.total = total
            bar.refresh()
        bar.update(done - bar.n)

    return move

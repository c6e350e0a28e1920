# SPDX-License-Identifier: GPL-2.0-only
"""What is closed by leaving its context."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ._errors import ForkError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType
    from typing import Self


class Closing:
    """A context manager by its close()."""

    def close(self) -> None:
        raise NotImplementedError

    def _get(self) -> Any:
        """What it is a handle of. ValueError: it is closed."""

    def __enter__(self) -> Self:
        self._get()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@contextmanager
def closed_first(inner: Iterable[Closing]) -> Iterator[None]:
    """Close all of these, and then what the body does.

    The first error of theirs is raised, when all is closed; none that only says that
    they belong to the process that this one was forked from.
    """
    first = None
    for one in list(inner):
        try:
            one.close()
        except OSError as error:
            first = first or error
    yield
    if first is not None and not isinstance(first, ForkError):
        raise first

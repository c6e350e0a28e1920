# SPDX-License-Identifier: GPL-2.0-only
"""What is closed by leaving its context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

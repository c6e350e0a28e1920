# SPDX-License-Identifier: GPL-2.0-only
"""What a copy leaves out: one file costs itself, and all that is missing is named."""

from __future__ import annotations


class LossWarning(UserWarning):
    """A copy left something behind."""


class LossError(OSError):
    """A strict copy ended where it would have left something behind."""


class CopyError(OSError):
    """Files of a tree were not copied; the others were.

    The errno is the first one's.
    """

    errors: list[tuple[str, OSError]]
    """Each of them: its path below what was copied, and why."""
    stopped: bool
    """The destination was full, or failed: what came after that was not tried."""

    def __init__(self, errors: list[tuple[str, OSError]], stopped: bool) -> None:
        shown = [f"{path}: {error.strerror}" for path, error in errors[:10]]
        if len(errors) > len(shown):
            shown.append(f"{len(errors) - len(shown)} more in `errors`")
        text = f"{len(errors)} not copied: {'; '.join(shown)}"
        super().__init__(errors[0][1].errno, text)
        self.errors = errors
        self.stopped = stopped

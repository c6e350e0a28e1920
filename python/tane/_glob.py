# SPDX-License-Identifier: GPL-2.0-only
"""What a pattern with wildcards means below a path."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._path import TanePath


def glob(top: TanePath, parts: tuple[str, ...]) -> Iterator[TanePath]:
    """Its matches, some of them several times if there is more than one `**`."""
    part, rest = parts[0], parts[1:]
    if part == "**":
        below = [top] if top.is_dir() else []
        while below:
            here = below.pop()
            if rest:
                yield from glob(here, rest)
            else:
                yield here
            with here.mount.scandir(str(here)) as entries:
                found = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
            below += [here / name for name in sorted(found, reverse=True)]
    elif not any(c in part for c in "*?["):
        path = top / part
        if path.exists(follow_symlinks=bool(rest)):
            yield from glob(path, rest) if rest else (path,)
    elif top.is_dir():
        matches = re.compile(fnmatch.translate(part)).match
        for name in sorted(filter(matches, top.mount.listdir(str(top)))):
            path = top / name
            yield from glob(path, rest) if rest else (path,)

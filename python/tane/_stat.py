# SPDX-License-Identifier: GPL-2.0-only
"""What the library says of a file, as `os` says it."""

from __future__ import annotations

import os
from typing import Any

from ._tane import ffi

STAT_SIZE = ffi.sizeof("struct tane_stat")


def nanoseconds(time: Any) -> int:
    return int(time.seconds) * 1_000_000_000 + int(time.nanoseconds)


def stat_result(raw: Any) -> os.stat_result:
    times = [nanoseconds(t) for t in (raw.atime, raw.mtime, raw.ctime)]
    seconds = [t // 1_000_000_000 for t in times]
    first = (raw.mode, raw.ino, raw.dev, raw.nlink, raw.uid, raw.gid, raw.length)
    more: dict[str, Any] = {
        "st_blksize": raw.block_size,
        "st_blocks": raw.blocks,
        "st_rdev": raw.rdev,
    }
    for name, ns in zip(("st_atime", "st_mtime", "st_ctime"), times, strict=True):
        more[name], more[name + "_ns"] = ns / 1e9, ns
    return os.stat_result((*first, *seconds), more)

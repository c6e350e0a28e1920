# SPDX-License-Identifier: GPL-2.0-only
"""Addresses: IMAGE:/path and IMAGE@SELECTOR:/path, as the command has them."""

from __future__ import annotations

import os
from typing import NamedTuple

from ._errors import fail, message
from ._tane import ffi, lib


def is_remote(image: str) -> bool:
    """Whether it is on a server."""
    return image.startswith(
        (
            "http://",
            "https://",
            "nbd://",
            "nbd+unix://",
            # Opening these says that they are not supported.
            "nbds://",
            "nbds+unix://",
            "nbd+vsock://",
            "nbds+vsock://",
            # Files, and no images: the command alone has these.
            "9p://",
            "9p+unix://",
            "nfs://",
        )
    )


class Address(NamedTuple):
    """A file in an image."""

    image: str
    """The image: a path on the host, or an address on a server."""
    selector: str | None
    """Which of its file systems: see `tane.open`."""
    path: str
    """Absolute, within that file system."""

    @classmethod
    def parse(
        cls, text: str | os.PathLike[str], *, images_only: bool = True
    ) -> Address | None:
        """Take an address apart, by what files there are on the host.

        An `@` is part of the image's name if there is such a file. `IMAGE` alone
        means its root. With images_only=False, None is a path on the host.

        ValueError: what stands behind the `@` is no selector, or it is not an
        address.
        """
        name = os.fsencode(text)
        if b"\0" in name:
            raise ValueError("an address has no NUL byte")
        found = ffi.new(
            "struct tane_address *", {"size": ffi.sizeof("struct tane_address")}
        )
        flags = lib.TANE_ADDRESS_IMAGES_ONLY if images_only else 0
        answer = lib.tane_address(name, flags, found)
        if answer < 0:
            if -answer == 22:
                raise ValueError(message())
            fail(-answer, os.fsdecode(name), message())
        if answer == 0:
            return None
        end = found.selector + found.selector_len
        selector = name[found.selector : end] if found.selector_len else None
        return cls(
            os.fsdecode(name[: found.image_len]),
            None if selector is None else os.fsdecode(selector),
            os.fsdecode(name[found.path :]) or "/",
        )

    def __str__(self) -> str:
        selector = "" if self.selector is None else f"@{self.selector}"
        return f"{self.image}{selector}:{self.path}"

# SPDX-License-Identifier: GPL-2.0-only
"""What is in a disk image: its volumes, its system, its largest files, and a table
in it summed up by pandas. Nothing in the image changes.

    python report.py IMAGE[@SELECTOR] [CSV]
"""

from __future__ import annotations

import sys

import tane


def largest(mount: tane.Mount, count: int = 5) -> list[tuple[int, str]]:
    found = []
    for top, _, files in mount.walk():
        for name in files:
            path = mount.path(top, name)
            found.append((path.lstat().st_size, str(path)))
    return sorted(found, reverse=True)[:count]


def main(argument: str, table: str | None = None) -> None:
    address = tane.Address.parse(argument)
    assert address is not None
    with tane.Image(address.image) as image:
        for volume in image.volumes:
            what = volume.fstype or "nothing known"
            print(
                f"{volume.kind} {volume.selector or ''} {volume.size >> 20} MiB: {what}"
            )
        with image.mount(address.selector) as mount:
            release = mount / "etc/os-release"
            if release.exists():
                print(release.read_text().partition("\n")[0])
            for size, name in largest(mount):
                print(f"{size:12} {name}")
            if table is not None:
                print(f"{len(mount.read_bytes(table))} bytes in {table}")
                summarise((mount / table).address)


def summarise(address: str) -> None:
    """The same file again, by whoever knows fsspec."""
    import pandas as pd

    print(pd.read_csv(f"tane://{address}").describe())


if __name__ == "__main__":
    main(*sys.argv[1:])

# SPDX-License-Identifier: GPL-2.0-only
"""Promises about memory that goes back to the host."""

from __future__ import annotations

from pathlib import Path

import pytest

import tane


@pytest.mark.parametrize("jail", [True, False])
def test_files_stay_when_memory_goes_back(image: Path, jail: bool) -> None:
    with tane.open(image, jail=jail) as mount:
        before = (mount / "hello").read_text()
        mount.image.kernel.trim()
        assert (mount / "hello").read_text() == before

# SPDX-License-Identifier: GPL-2.0-only
"""The table of how images are opened (tests/opening), by this package."""

from __future__ import annotations

import errno
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import fsck

import tane

TABLE = Path(__file__).resolve().parents[2] / "tests/opening"
CASES: list[dict[str, Any]] = json.loads((TABLE / "cases.json").read_text())
# The options that are called otherwise here.
NAMES: dict[str, str] = {"with": "with_images", "secrets": "passphrase"}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("opening")
    made = subprocess.run([TABLE / "make", place], capture_output=True, text=True)
    if made.returncode == 2:
        pytest.skip(made.stderr)
    assert made.returncode == 0, made.stderr
    return place


def keywords(case: dict[str, Any]) -> dict[str, Any]:
    options = dict(case.get("options", {}))
    given: dict[str, Any] = {"mode": "rw" if options.pop("write", False) else "r"}
    for name, value in options.items():
        if isinstance(value, str) and value.startswith("<"):
            value = Path(value[1:]).read_text()
        given[NAMES.get(name) or name] = value
    return given


def try_case(case: dict[str, Any]) -> None:
    given = keywords(case)
    for name, text in case.get("writes", {}).items():
        with tane.open(case["image"], **given) as mount:
            (mount / name).write_text(text)
    with tane.open(case["image"], **given) as mount:
        for name, text in case.get("reads", {}).items():
            assert (mount / name).read_text() == text
        for name, text in case.get("writes", {}).items():
            if case.get("forgets"):
                assert not (mount / name).exists()
            else:
                assert (mount / name).read_text() == text


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_python_opens_what_the_table_says(
    case: dict[str, Any], images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(images)
    if "fails" not in case:
        try_case(case)
        if "writes" in case:
            fsck(images / "written.img")
        return
    expected = case["fails"]
    with pytest.raises((OSError, ValueError)) as failed:
        try_case(case)
    # A missing image is told by its name alone.
    text = str(failed.value)
    assert expected["says"] in text
    if isinstance(failed.value, OSError):
        assert failed.value.errno == getattr(errno, expected["errno"])

# SPDX-License-Identifier: GPL-2.0-only
"""Promises about the package as it is installed, and about the example."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import MakeImage

import tane

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(*arguments: str | Path, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if k != "TANE_IMAGE"}
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env=kept | environment,
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_all_that_it_needs() -> None:
    files = importlib.metadata.files("tane")
    assert files is not None
    names = {str(file) for file in files}
    assert {"tane/tane-default.elf", "tane/_tane.abi3.so", "tane/py.typed"} <= names
    assert {"tane/tane-tiny.elf", "tane/tane-worker"} <= names
    # Not the source tree's, and not what the environment says.
    program = "import tane; k = tane.Kernel(); print(k.is_alive); k.close()"
    assert run("-c", program) == "True\n"
    missing = "import tane; tane.Kernel()"
    done = subprocess.run(
        [sys.executable, "-c", missing],
        env={**os.environ, "TANE_IMAGE": "/none.elf"},
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert "/none.elf" in done.stderr


def test_the_licence_and_version_are_the_projects() -> None:
    metadata = importlib.metadata.metadata("tane")
    assert metadata["License"] == "GPL-2.0-only"
    assert re.fullmatch(r"\d+\.\d+\.\d+", metadata["Version"])


def test_every_public_name_has_a_docstring() -> None:
    for name in tane.__all__:
        assert getattr(tane, name).__doc__, name


def test_the_example_runs(make_image: MakeImage) -> None:
    image = make_image(
        {
            "etc/os-release": b'PRETTY_NAME="Seed Linux"\nID=seed\n',
            "data/table.csv": b"x\n1\n2\n6\n",
            "large": bytes(1 << 20),
        }
    )
    said = run(EXAMPLES / "report.py", image, "data/table.csv")
    assert "disk  32 MiB: ext4" in said
    assert "Seed Linux" in said
    assert re.search(r"^ +1048576 /large$", said, re.MULTILINE)
    assert re.search(r"^mean +3\.0", said, re.MULTILINE)

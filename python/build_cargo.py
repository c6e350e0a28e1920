# SPDX-License-Identifier: GPL-2.0-only
"""What the wheel needs of cargo."""

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(package: str, ending: str) -> str:
    """Has cargo build a package; the file of it that ends so."""
    profile = os.environ.get("TANE_CARGO_PROFILE") or "release"
    command = [os.environ.get("CARGO") or "cargo", "build", "-p", package]
    command += ["--profile", profile, "--message-format", "json-render-diagnostics"]
    built = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact":
            for name in message["filenames"]:
                if name.endswith(ending):
                    return str(name)
    raise SystemExit(f"cargo built no {ending} of {package}")

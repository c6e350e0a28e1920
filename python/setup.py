# SPDX-License-Identifier: GPL-2.0-only
"""Builds the wheel: the C library by cargo, the extension by cffi, and puts the
kernel images beside it. Settings are environment variables:

TANE_IMAGE          the only kernel image to take; else tane-default.elf and, if it is
                    there, tane-tiny.elf of build/images in the source tree
TANE_CARGO_PROFILE  the profile of cargo, such as dev; else release
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from build_cargo import build  # noqa: E402

ROOT = HERE.parent
IMAGE = "tane-default.elf"
TINY = "tane-tiny.elf"
WORKER = "tane-worker"

# As pyproject.toml says; it has to be there.
(ROOT / "build/python").mkdir(parents=True, exist_ok=True)


class BuildPy(build_py):
    """With the kernel images, which are too large to lie in the source tree twice, and
    the program that serves images in a jail."""

    def run(self) -> None:
        # What an earlier build left would go into the wheel.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        named = os.environ.get("TANE_IMAGE")
        image = Path(named or ROOT / "build/images" / IMAGE)
        if not image.is_file():
            sys.exit(
                f"no kernel image {image}: build it (make kernel) or set TANE_IMAGE"
            )
        # Under the names that the library looks for beside itself.
        shutil.copyfile(image, Path(self.build_lib, "tane", IMAGE))
        tiny = image.with_name(TINY)
        if not named and tiny.is_file():
            shutil.copyfile(tiny, Path(self.build_lib, "tane", TINY))
        worker = Path(self.build_lib, "tane", WORKER)
        shutil.copy(build("tane-worker", f"/{WORKER}"), worker)
        subprocess.run(["strip", "--strip-debug", worker], check=True)


class BdistWheel(bdist_wheel):
    """For every CPython from 3.11 on: the extension keeps to the stable interface."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


def version() -> str:
    manifest = (ROOT / "Cargo.toml").read_text()
    found = re.search(r'^version = "(.+)"$', manifest, re.MULTILINE)
    assert found, "Cargo.toml has no version"
    return found[1]


setup(
    version=version(),
    cffi_modules=["build_extension.py:ffibuilder"],
    cmdclass={"build_py": BuildPy, "bdist_wheel": BdistWheel},
)

# SPDX-License-Identifier: GPL-2.0-only
"""The extension module tane._tane: all of tane.h, made callable by cffi.

cffi releases the interpreter's lock around every call, and hands buffers over by
their address.
"""

import re
import sys
from pathlib import Path

from cffi import FFI

sys.path.insert(0, str(Path(__file__).resolve().parent))
from build_cargo import ROOT, build

HEADER = ROOT / "capi/include/tane.h"

# Called by the library; see tane/_image.py, tane/_errors.py, tane/_copy.py and
# tane/_module.py.
CALLBACKS = """
extern "Python" void tane_py_notice(void *, const char *, size_t);
extern "Python" int tane_py_interrupted(void *);
extern "Python" int tane_py_progress(void *, uint64_t, uint64_t, uint64_t, uint64_t);
extern "Python" void tane_py_lost(void *, const char *, const char *, int);
extern "Python" void tane_py_failed(void *, const char *, const char *, int);
extern "Python" int64_t tane_py_import(void *, struct tane_instance *, const int64_t *);
"""


def declarations(header: str) -> str:
    """What cffi can read of a C header: no preprocessor but numbers."""
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", header, flags=re.DOTALL)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    lines = (
        line
        for line in text.splitlines()
        if not line.startswith("#") or re.match(r"#define \w+ \w+$", line)
    )
    return "\n".join(lines)


def builder() -> FFI:
    ffi = FFI()
    ffi.cdef(declarations(HEADER.read_text()) + CALLBACKS)
    ffi.set_source(
        "tane._tane",
        "#include <tane.h>",
        include_dirs=[str(HEADER.parent)],
        extra_objects=[build("tane-capi", "/libtane.a")],
        libraries=["pthread", "dl", "m", "gcc_s"],
        extra_link_args=["-Wl,--gc-sections,--exclude-libs,ALL,--strip-debug"],
    )
    return ffi


ffibuilder = builder()

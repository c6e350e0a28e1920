# What cffi makes of tane.h.
from typing import Any

ffi: Any
lib: Any

# SPDX-License-Identifier: GPL-2.0-only
"""Linux as a library: disk images and their files.

A real Linux kernel runs as a part of the program, without privileges and without a
virtual machine: for `open` in a jailed process of its own, for `Kernel` and with
`jail=False` in this one. `open` opens an image and gives the files in it:

>>> import tane
>>> with tane.open("disk.qcow2", "2") as mount:      # partition 2, for reading
...     print((mount / "etc/os-release").read_text())

    Kernel ── Image ── Volume        a kernel, an image, what is in it
       │        └───── Mount         its files by path, as `os` has the host's
       │                ├── TanePath     the same as `pathlib` has them
       │                ├── RawFile      an open file, as `io` has them
       │                └── HostMount    the same for the host's programs
       └───── Network ── Nic         interfaces and names
                └────── socket.Socket    sockets, as `socket` has the host's

Rules that hold everywhere:

- Sizes and offsets are in bytes. Names are str, with surrogate escapes for bytes
  that are not UTF-8 (see `os.fsdecode`).
- Paths start at the root of the mount. No link and no ".." leads out of it.
- Everything may be used from several threads at once; calls release the
  interpreter's lock.
- Errors are OSErrors: FileNotFoundError and so on, with errno and filename.
- After `os.fork()` a child can use nothing that its parent opened (ForkError), but
  can open for itself.
"""

from ._address import Address
from ._checkpoint import Checkpoint
from ._disk import RamDisk
from ._errors import ForkError, KernelError, LockedError, SelectorError
from ._failed import CopyError, LossError, LossWarning
from ._file import RawFile
from ._host_mount import HostMount
from ._image import Image, Volume, open
from ._kernel import Kernel
from ._listing import DirEntry
from ._make import Made, make_image
from ._module import Instance, Module, ModuleError, Trap
from ._mount import Mount
from ._mptcp import Endpoint, Mptcp, MptcpInfo, Subflow
from ._network import Network
from ._nic import Link, Nic
from ._options import ImageOptions
from ._path import TanePath
from ._progress import drive
from ._trace import Trace, TracedCall

__all__ = [
    "Address",
    "Checkpoint",
    "CopyError",
    "DirEntry",
    "Endpoint",
    "ForkError",
    "HostMount",
    "Image",
    "ImageOptions",
    "Instance",
    "Kernel",
    "KernelError",
    "Link",
    "LockedError",
    "LossError",
    "LossWarning",
    "Made",
    "Module",
    "ModuleError",
    "Mount",
    "Mptcp",
    "MptcpInfo",
    "Network",
    "Nic",
    "RamDisk",
    "RawFile",
    "SelectorError",
    "Subflow",
    "TanePath",
    "Trace",
    "TracedCall",
    "Trap",
    "Volume",
    "drive",
    "make_image",
    "open",
]

# SPDX-License-Identifier: GPL-2.0-only
"""Kernels."""

from __future__ import annotations

import errno
import os
import weakref
from typing import TYPE_CHECKING, Any

from ._checkpoint import Checkpoint
from ._closing import Closing, closed_first
from ._errors import fail, forks, message, raise_kept
from ._network import Network
from ._tane import ffi, lib
from ._trace import Trace

if TYPE_CHECKING:
    from ._disk import RamDisk
    from ._image import Image
    from ._nic import Nic


class Kernel(Closing):
    """A Linux kernel in this process, without a jail.

    For programs that make system calls, or have several images on one kernel; an
    image that is opened without one gets its own, in a jail. That of a jailed image
    (`Image.kernel`) is a Kernel too, without `syscall`.

    `image` is the kernel image to boot (else $TANE_IMAGE, else the one in this
    package), `memory` in bytes (256 MiB; only what it touches is taken from the
    host), `cpus` the number of virtual CPUs (1; more take an image built for it),
    `append` words for its command line. Booting takes some milliseconds.

    Leaving the context closes every image that was opened with it.

    FileNotFoundError: there is no image; OSError ENOEXEC: the file is none;
    ENOMEM: the host has no memory for it.
    """

    def __init__(
        self,
        *,
        image: str | os.PathLike[str] | None = None,
        memory: int | None = None,
        cpus: int | None = None,
        append: str | None = None,
    ) -> None:
        self._forks = forks()
        self._images: weakref.WeakSet[Image | Nic | RamDisk] = weakref.WeakSet()
        self._handle: Any = None
        self._jailed = False
        options = ffi.new("struct tane_kernel_options *")
        options.size = ffi.sizeof("struct tane_kernel_options")
        options.memory = memory or 0
        options.cpus = cpus or 0
        keep = []
        if image is not None:
            keep.append(ffi.new("char[]", os.fsencode(image)))
            options.image = keep[-1]
        if append is not None:
            keep.append(ffi.new("char[]", append.encode()))
            options.cmdline = keep[-1]
        to = ffi.new("struct tane_kernel **")
        answer = lib.tane_kernel_boot(options, to)
        if answer < 0:
            fail(-answer, None if image is None else os.fspath(image), message())
        self._handle = ffi.gc(to[0], lib.tane_kernel_close)

    @classmethod
    def _of_image(cls, image: Any) -> Kernel:
        """The one in the worker of an image."""
        kernel = cls.__new__(cls)
        kernel._forks = forks()
        kernel._images = weakref.WeakSet()
        kernel._jailed = True
        to = ffi.new("struct tane_kernel **")
        answer = lib.tane_image_kernel(image, to)
        if answer < 0:
            fail(-answer, None, message())
        kernel._handle = ffi.gc(to[0], lib.tane_kernel_close)
        return kernel

    def _get(self) -> Any:
        handle = self._handle
        if handle is None:
            raise ValueError("the kernel is closed")
        return handle

    @property
    def is_alive(self) -> bool:
        """Whether calls still have an effect."""
        if self._handle is None:
            return False
        alive = bool(lib.tane_kernel_is_alive(self._get()) == 1)
        raise_kept()
        return alive

    def halt(self) -> None:
        """End it now, without a sync, as a power cut would."""
        lib.tane_kernel_halt(self._get())
        raise_kept()

    def trim(self) -> None:
        """Give memory back to the host: what is cached of files and names and could be
        read again is forgotten, and all that is free becomes the host's.

        What is written and not yet on its disk stays: sync before to have more go.
        Calls of other threads go on. What Linux frees goes back within some seconds
        without this, but for small pieces.

        KernelError: it has ended.
        """
        answer = lib.tane_kernel_trim(self._get())
        if answer < 0:
            fail(-answer, None, message(), made=self._forks)

    def dmesg(self) -> str:
        """Its log so far; the newest megabyte."""
        return self._text(lib.tane_kernel_dmesg)

    def last_words(self) -> str:
        """Why it died: after a panic or fault the text of its oops."""
        return self._text(lib.tane_kernel_last_words)

    def _text(self, call: Any) -> str:
        size = 1 << 16
        while True:
            text = ffi.new("char[]", size)
            length = call(self._get(), text, size)
            if length < 0:
                fail(-length, made=self._forks)
            if length < size:
                return str(ffi.unpack(text, length).decode("utf-8", "replace"))
            size = length + 4096

    def syscall(self, number: int, *args: Any) -> int:
        """Any Linux system call, by its x86-64 number; its result.

        Arguments are numbers, None, or objects with a buffer: their address is
        passed, and the kernel reads and writes there what the call's manual page
        says. Descriptors and paths are the kernel's own, not the host's. A wrong
        length overwrites memory of this process, as in C.
        """
        if self._jailed:
            if self._forks != forks():
                fail(errno.ENOTSUP, made=self._forks)
            text = "the kernel runs jailed in another process: pass jail=False to open"
            fail(errno.EOPNOTSUPP, None, text)
        words, keep = [0] * 6, []
        for at, arg in enumerate(args):
            if arg is None or isinstance(arg, int):
                words[at] = (arg or 0) & 0xFFFF_FFFF_FFFF_FFFF
            else:
                keep.append(ffi.from_buffer(arg))
                words[at] = int(ffi.cast("uintptr_t", keep[-1]))
        answer = lib.tane_syscall(self._get(), number, *words)
        if -4096 < answer < 0:
            fail(-answer, made=self._forks)
        return int(answer)

    @property
    def network(self) -> Network:
        """Its network: interfaces, names, sockets.

        OSError EOPNOTSUPP, when it is used: the kernel is that of a jailed image.
        """
        return Network(self)

    def checkpoint(self) -> Checkpoint:
        """Remember what the kernel is now, with what is mounted and open and what its
        disks hold:

        >>> with kernel.checkpoint():
        ...     (mount / "etc/fstab").unlink()      # for as long as the context lasts

        At the end of the context the kernel goes back, in less than a millisecond as a
        rule, and the checkpoint is forgotten; without a context `rollback` goes back as
        often as is wanted. Checkpoints may be made within others. The first one of a
        kernel copies its memory, some milliseconds; later ones what was written since.

        Disks must be able to go back: a RamDisk, and images that are opened with mode
        "r" or overlay ":memory:". Threads may call meanwhile: a call is over before,
        or it begins after; but what another thread opens in the very moment of going
        back may stay open.

        OSError EBUSY: a call of another thread waits for something inside, or requests
        to disks do not end; ENOTSUP: a disk cannot go back, or the kernel is that of a
        jailed image (pass jail=False to open); KernelError: it has ended.
        """
        return Checkpoint(self)

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Be again what it was at this checkpoint, which stays; newer ones are none any
        more.

        What was synced since is undone as well. Files and mounts from before go on, at
        the position they had, if they are open still; files opened since answer EBADF,
        and closing them, or leaving them to the garbage collector, does no harm. Time
        goes on; random numbers may come a second time: make no keys from them.

        OSError EINVAL: the checkpoint is another kernel's; ESTALE: the kernel has gone
        back to an older one; EBUSY: a disk was added or removed since; else as
        `checkpoint`. The kernel is as it was before the call then.
        """
        answer = lib.tane_rollback(self._get(), checkpoint._get())
        if answer < 0:
            fail(-answer, None, message(), made=self._forks)

    def trace(
        self,
        function: str | None = None,
        *,
        depth: int = 0,
        buffer: int | None = None,
    ) -> Trace:
        """Record which functions the calls of this process's threads go through:

        >>> with tane.Kernel(image="tane-lab.elf") as kernel, kernel.trace() as trace:
        ...     kernel.syscall(39)
        >>> print(trace)                        # calls, µs, function

        `function` restricts it to what happens inside of one, or of those that match a
        pattern with asterisks, `depth` to so many levels of calls; `buffer` are bytes
        of the kernel's memory for the record, on each CPU (4 MiB). One trace at a time.

        OSError ENOTSUP: the kernel's image has no tracers, which only lab has, or it is
        that of a jailed image; EINVAL: there is no such function; EBUSY: it is traced
        already.
        """
        return Trace(self, function, depth, buffer)

    def close(self) -> None:
        """Unmount what was mounted, and end it. Twice does nothing.

        The first error of unmounting is raised, when all is closed.
        """
        with closed_first(self._images):
            self._handle = None

    def __repr__(self) -> str:
        state = "alive" if self.is_alive else "ended"
        return f"<tane.Kernel {state}>"

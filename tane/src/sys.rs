//! The calls of [`tane_linux`] on a kernel of ours, and descriptors that keep it alive.
//! Results are bare errnos, to which the callers add their context.

use crate::kernel::Kernel;
use crate::machine::Machine;
use std::ffi::CStr;
use tane_linux::{Descriptor, Sys};

pub(crate) type SysResult<T> = tane_linux::Result<T>;

/// A descriptor inside the kernel, closed when dropped. Keeps the kernel alive.
pub(crate) struct Fd {
    pub(crate) kernel: Kernel,
    pub(crate) raw: i32,
}

impl Fd {
    /// The calls of its kernel.
    #[inline]
    pub(crate) fn sys(&self) -> Sys<'_, Machine> {
        self.kernel.sys()
    }
}

impl Descriptor for Fd {
    #[inline]
    fn raw(&self) -> i32 {
        self.raw
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        self.sys().close(self.raw);
    }
}

impl Kernel {
    /// Its calls, with types.
    #[inline]
    pub(crate) fn sys(&self) -> Sys<'_, Machine> {
        Sys(self.machine())
    }

    fn own(&self, fd: i32) -> Fd {
        Fd {
            kernel: self.clone(),
            raw: fd,
        }
    }

    pub(crate) fn openat(
        &self,
        dir: impl Descriptor,
        path: &CStr,
        flags: i32,
        mode: u32,
    ) -> SysResult<Fd> {
        let opened = self.sys().open_number(dir, path, flags, mode);
        opened.map(|fd| self.own(fd))
    }

    /// Resolves the whole path, links and ".." too, as if `dir` were "/".
    pub(crate) fn open_in_root(
        &self,
        dir: impl Descriptor,
        path: &CStr,
        flags: i32,
        mode: u32,
    ) -> SysResult<Fd> {
        let resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_MAGICLINKS;
        let opened = self.sys().open2_number(dir, path, flags, mode, resolve);
        opened.map(|fd| self.own(fd))
    }

    pub(crate) fn dup(&self, fd: impl Descriptor) -> SysResult<Fd> {
        self.sys().dup_number(fd).map(|fd| self.own(fd))
    }

    pub(crate) fn fsopen(&self, fstype: &CStr) -> SysResult<Fd> {
        self.sys().fsopen(fstype).map(|fd| self.own(fd))
    }

    pub(crate) fn fsmount(&self, fs: &Fd, attributes: u64) -> SysResult<Fd> {
        self.sys().fsmount(fs, attributes).map(|fd| self.own(fd))
    }

    /// All that [`Metadata`](crate::Metadata) tells; an empty path is the descriptor
    /// itself.
    pub(crate) fn statx(
        &self,
        dir: impl Descriptor,
        path: &CStr,
        flags: i32,
    ) -> SysResult<libc::statx> {
        let mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID;
        self.sys().statx(dir, path, flags, mask)
    }

    pub(crate) fn fstatx(&self, fd: impl Descriptor) -> SysResult<libc::statx> {
        self.statx(fd, c"", 0)
    }
}

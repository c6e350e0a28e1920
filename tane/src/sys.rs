//! The calls of [`tane_linux`] on a kernel of ours, and descriptors that keep it alive.
//! Results are bare errnos, to which the callers add their context.

use crate::ages::{Age, Given};
use crate::kernel::Kernel;
use crate::machine::Machine;
use std::ffi::CStr;
use tane_linux::{Descriptor, Sys};

pub(crate) type SysResult<T> = tane_linux::Result<T>;

/// A descriptor inside the kernel, closed when dropped. Keeps the kernel alive.
pub(crate) struct Fd {
    pub(crate) kernel: Kernel,
    number: i32,
    /// When it was opened.
    age: Age,
}

impl Fd {
    /// What a call gave at that time.
    pub(crate) fn new(kernel: &Kernel, number: i32, age: Age) -> Self {
        Self {
            kernel: kernel.clone(),
            number,
            age,
        }
    }

    /// Its number in the kernel; -1 if the kernel went back to before it was opened. For the
    /// call that this thread makes next.
    #[inline]
    pub(crate) fn raw(&self) -> i32 {
        match self.kernel.has(&self.age) {
            true => self.number,
            false => -1,
        }
    }

    /// The same for whoever wants to see it.
    pub(crate) fn number(&self) -> i32 {
        match self.age.is_undone() {
            true => -1,
            false => self.number,
        }
    }

    /// The calls of its kernel.
    #[inline]
    pub(crate) fn sys(&self) -> Sys<'_, Machine> {
        self.kernel.sys()
    }
}

impl Descriptor for Fd {
    #[inline]
    fn raw(&self) -> i32 {
        Fd::raw(self)
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        let what = Given::Descriptor(self.number);
        self.kernel.take_back(what, &self.age);
    }
}

impl Kernel {
    /// Its calls, with types.
    #[inline]
    pub(crate) fn sys(&self) -> Sys<'_, Machine> {
        Sys(self.machine())
    }

    /// What this call gives.
    fn own(&self, open: impl FnMut() -> SysResult<i32>) -> SysResult<Fd> {
        let (number, age) = self.dated(open)?;
        Ok(Fd::new(self, number, age))
    }

    pub(crate) fn openat(
        &self,
        dir: impl Descriptor,
        path: &CStr,
        flags: i32,
        mode: u32,
    ) -> SysResult<Fd> {
        self.own(|| self.sys().open_number(&dir, path, flags, mode))
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
        self.own(|| self.sys().open2_number(&dir, path, flags, mode, resolve))
    }

    pub(crate) fn dup(&self, fd: impl Descriptor) -> SysResult<Fd> {
        self.own(|| self.sys().dup_number(&fd))
    }

    pub(crate) fn fsopen(&self, fstype: &CStr) -> SysResult<Fd> {
        self.own(|| self.sys().fsopen(fstype))
    }

    pub(crate) fn fsmount(&self, fs: &Fd, attributes: u64) -> SysResult<Fd> {
        self.own(|| self.sys().fsmount(fs, attributes))
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

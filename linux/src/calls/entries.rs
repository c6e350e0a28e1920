//! Directories and what is in them.

use super::Sys;
use crate::errno::Result;
use crate::{Descriptor, Linux};
use std::ffi::CStr;

/// Bytes of the longest target that a link has.
const PATH: usize = 4096;

impl<L: Linux + ?Sized> Sys<'_, L> {
    /// getdents64(2): how many bytes of records there are now.
    pub fn getdents(self, dir: impl Descriptor, buffer: &mut [u64]) -> Result<usize> {
        let (at, len) = (buffer.as_mut_ptr(), size_of_val(buffer));
        call!(self, libc::SYS_getdents64, dir.raw(), at, len)
    }

    /// readlinkat(2); an empty name is a link that is open by O_PATH.
    pub fn readlink(self, dir: impl Descriptor, name: &CStr) -> Result<Vec<u8>> {
        let mut target = vec![0; PATH];
        let (at, len) = (target.as_mut_ptr(), target.len());
        let (dir, name) = (dir.raw(), name.as_ptr());
        let n = call!(self, libc::SYS_readlinkat, dir, name, at, len)?;
        target.truncate(n);
        Ok(target)
    }

    /// mkdirat(2).
    pub fn mkdir(self, dir: impl Descriptor, name: &CStr, mode: u32) -> Result<()> {
        call!(self, libc::SYS_mkdirat, dir.raw(), name.as_ptr(), mode).map(drop)
    }

    /// mknodat(2).
    pub fn mknod(self, dir: impl Descriptor, name: &CStr, mode: u32, rdev: u64) -> Result<()> {
        let (dir, name) = (dir.raw(), name.as_ptr());
        call!(self, libc::SYS_mknodat, dir, name, mode, rdev).map(drop)
    }

    /// symlinkat(2).
    pub fn symlink(self, target: &CStr, dir: impl Descriptor, name: &CStr) -> Result<()> {
        let (target, dir, name) = (target.as_ptr(), dir.raw(), name.as_ptr());
        call!(self, libc::SYS_symlinkat, target, dir, name).map(drop)
    }

    /// linkat(2), of a link itself.
    pub fn link(
        self,
        from: impl Descriptor,
        old: &CStr,
        to: impl Descriptor,
        new: &CStr,
    ) -> Result<()> {
        let (from, to) = (from.raw(), to.raw());
        let (old, new) = (old.as_ptr(), new.as_ptr());
        call!(self, libc::SYS_linkat, from, old, to, new, 0).map(drop)
    }

    /// renameat2(2).
    pub fn rename(
        self,
        from: impl Descriptor,
        old: &CStr,
        to: impl Descriptor,
        new: &CStr,
        flags: u32,
    ) -> Result<()> {
        let (from, to) = (from.raw(), to.raw());
        let (old, new) = (old.as_ptr(), new.as_ptr());
        call!(self, libc::SYS_renameat2, from, old, to, new, flags).map(drop)
    }

    /// unlinkat(2).
    pub fn unlink(self, dir: impl Descriptor, name: &CStr, flags: i32) -> Result<()> {
        call!(self, libc::SYS_unlinkat, dir.raw(), name.as_ptr(), flags).map(drop)
    }
}

//! Directories and what is in them.

use super::Sys;
use crate::sys::{errno::Result, Fd};
use std::ffi::CStr;

impl Sys<'_> {
    pub fn getdents(self, dir: &Fd, buffer: &mut [u64]) -> Result<usize> {
        call!(
            self,
            SYS_getdents64,
            dir.raw(),
            buffer.as_mut_ptr(),
            size_of_val(buffer)
        )
    }

    pub fn readlink(self, dir: &Fd, name: &CStr) -> Result<Vec<u8>> {
        let mut target = vec![0; 4096];
        let (at, len) = (target.as_mut_ptr(), target.len());
        let n = call!(self, SYS_readlinkat, dir.raw(), name.as_ptr(), at, len)?;
        target.truncate(n);
        Ok(target)
    }

    pub fn mkdir(self, dir: &Fd, name: &CStr, mode: u32) -> Result<()> {
        call!(self, SYS_mkdirat, dir.raw(), name.as_ptr(), mode).map(drop)
    }

    pub fn mknod(self, dir: &Fd, name: &CStr, mode: u32, rdev: u64) -> Result<()> {
        call!(self, SYS_mknodat, dir.raw(), name.as_ptr(), mode, rdev).map(drop)
    }

    pub fn symlink(self, target: &CStr, dir: &Fd, name: &CStr) -> Result<()> {
        call!(
            self,
            SYS_symlinkat,
            target.as_ptr(),
            dir.raw(),
            name.as_ptr()
        )
        .map(drop)
    }

    pub fn link(self, from: &Fd, old: &CStr, to: &Fd, new: &CStr) -> Result<()> {
        call!(
            self,
            SYS_linkat,
            from.raw(),
            old.as_ptr(),
            to.raw(),
            new.as_ptr(),
            0
        )
        .map(drop)
    }

    pub fn rename(self, from: &Fd, old: &CStr, to: &Fd, new: &CStr, flags: u32) -> Result<()> {
        call!(
            self,
            SYS_renameat2,
            from.raw(),
            old.as_ptr(),
            to.raw(),
            new.as_ptr(),
            flags
        )
        .map(drop)
    }

    pub fn unlink(self, dir: &Fd, name: &CStr, flags: i32) -> Result<()> {
        call!(self, SYS_unlinkat, dir.raw(), name.as_ptr(), flags).map(drop)
    }
}

//! Extended attributes, as xattr(7) has them.

use super::Sys;
use crate::sys::{errno::Result, Fd};
use std::ffi::{CStr, CString};

impl Sys<'_> {
    /// A path for the calls that take no directory descriptor.
    pub fn path_of_entry(self, dir: &Fd, name: &CStr) -> CString {
        let mut path = format!("/proc/self/fd/{}/", dir.raw()).into_bytes();
        path.extend_from_slice(name.to_bytes());
        CString::new(path).unwrap_or_default()
    }

    pub fn flistxattr(self, fd: &Fd, to: &mut [u8]) -> Result<usize> {
        call!(self, SYS_flistxattr, fd.raw(), to.as_mut_ptr(), to.len())
    }

    pub fn fgetxattr(self, fd: &Fd, name: &CStr, to: &mut [u8]) -> Result<usize> {
        call!(
            self,
            SYS_fgetxattr,
            fd.raw(),
            name.as_ptr(),
            to.as_mut_ptr(),
            to.len()
        )
    }

    pub fn fsetxattr(self, fd: &Fd, name: &CStr, value: &[u8]) -> Result<()> {
        let (at, len) = (value.as_ptr(), value.len());
        call!(self, SYS_fsetxattr, fd.raw(), name.as_ptr(), at, len, 0).map(drop)
    }

    pub fn fremovexattr(self, fd: &Fd, name: &CStr) -> Result<()> {
        call!(self, SYS_fremovexattr, fd.raw(), name.as_ptr()).map(drop)
    }

    pub fn llistxattr(self, path: &CStr, to: &mut [u8]) -> Result<usize> {
        call!(
            self,
            SYS_llistxattr,
            path.as_ptr(),
            to.as_mut_ptr(),
            to.len()
        )
    }

    pub fn lgetxattr(self, path: &CStr, name: &CStr, to: &mut [u8]) -> Result<usize> {
        call!(
            self,
            SYS_lgetxattr,
            path.as_ptr(),
            name.as_ptr(),
            to.as_mut_ptr(),
            to.len()
        )
    }

    pub fn lsetxattr(self, path: &CStr, name: &CStr, value: &[u8]) -> Result<()> {
        let (at, len) = (value.as_ptr(), value.len());
        call!(
            self,
            SYS_lsetxattr,
            path.as_ptr(),
            name.as_ptr(),
            at,
            len,
            0
        )
        .map(drop)
    }

    pub fn lremovexattr(self, path: &CStr, name: &CStr) -> Result<()> {
        call!(self, SYS_lremovexattr, path.as_ptr(), name.as_ptr()).map(drop)
    }
}

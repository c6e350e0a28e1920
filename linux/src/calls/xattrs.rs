//! Extended attributes, as xattr(7) has them.

use super::Sys;
use crate::errno::Result;
use crate::Linux;
use std::ffi::CStr;

/// Whose extended attributes: the calls come in three kinds.
#[derive(Clone, Copy, Debug)]
pub enum XattrOf<'a> {
    /// A descriptor, not by O_PATH.
    Open(i32),
    /// An absolute path; a link at its end is meant itself.
    Link(&'a CStr),
    /// An absolute path, links followed.
    File(&'a CStr),
}

impl XattrOf<'_> {
    /// The call's number and first argument.
    fn choose(self, [open, link, file]: [i64; 3]) -> (i64, u64) {
        match self {
            Self::Open(fd) => (open, fd as u64),
            Self::Link(path) => (link, path.as_ptr() as u64),
            Self::File(path) => (file, path.as_ptr() as u64),
        }
    }
}

impl<L: Linux + ?Sized> Sys<'_, L> {
    /// getxattr(2): how long the value is. ERANGE: longer than the buffer; an empty one
    /// asks for the length.
    pub fn getxattr(self, of: XattrOf, name: &CStr, to: &mut [u8]) -> Result<usize> {
        let nrs = [libc::SYS_fgetxattr, libc::SYS_lgetxattr, libc::SYS_getxattr];
        let (nr, of) = of.choose(nrs);
        call!(self, nr, of, name.as_ptr(), to.as_mut_ptr(), to.len())
    }

    /// listxattr(2): names, each with a NUL.
    pub fn listxattr(self, of: XattrOf, to: &mut [u8]) -> Result<usize> {
        let nrs = [
            libc::SYS_flistxattr,
            libc::SYS_llistxattr,
            libc::SYS_listxattr,
        ];
        let (nr, of) = of.choose(nrs);
        call!(self, nr, of, to.as_mut_ptr(), to.len())
    }

    /// setxattr(2); `flags`: 0, XATTR_CREATE or XATTR_REPLACE.
    pub fn setxattr(self, of: XattrOf, name: &CStr, value: &[u8], flags: i32) -> Result<()> {
        let nrs = [libc::SYS_fsetxattr, libc::SYS_lsetxattr, libc::SYS_setxattr];
        let (nr, of) = of.choose(nrs);
        let (at, len) = (value.as_ptr(), value.len());
        call!(self, nr, of, name.as_ptr(), at, len, flags).map(drop)
    }

    /// removexattr(2).
    pub fn removexattr(self, of: XattrOf, name: &CStr) -> Result<()> {
        let nrs = [
            libc::SYS_fremovexattr,
            libc::SYS_lremovexattr,
            libc::SYS_removexattr,
        ];
        let (nr, of) = of.choose(nrs);
        call!(self, nr, of, name.as_ptr()).map(drop)
    }
}

//! The calls that serving a file system to others takes, beside those that
//! copying does.

use super::{Sys, XattrOf};
use crate::errno::{Errno, Result};
use crate::xattr::with_proc_path;
use crate::{Descriptor, Linux};
use std::ffi::CStr;

/// linux/capability.h's version 3 of the structures.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const CAP_VERSION_3: u32 = 0x2008_0522;

/// Room for what any of the calls about flags of an inode reads or writes.
pub type FlagsData = [u64; 4];

impl<L: Linux + ?Sized> Sys<'_, L> {
    /// Another name for an open file, of any kind.
    pub fn link_fd(self, fd: impl Descriptor, dir: impl Descriptor, name: &CStr) -> Result<()> {
        let flags = libc::AT_EMPTY_PATH;
        let (from, to) = (fd.raw(), dir.raw());
        let (old, new) = (c"".as_ptr(), name.as_ptr());
        call!(self, libc::SYS_linkat, from, old, to, new, flags).map(drop)
    }

    /// Changes the mode of a file that is open by O_PATH. EOPNOTSUPP for a link.
    pub fn chmod_path(self, fd: impl Descriptor, mode: u32) -> Result<()> {
        with_proc_path(fd.raw(), None, |path| {
            self.chmod(libc::AT_FDCWD, path, mode)
        })
    }

    /// These four work on files that are open by O_PATH too: the link in /proc leads to
    /// the file itself, also if it is a symlink.
    pub fn get_attribute(self, fd: impl Descriptor, name: &CStr, to: &mut [u8]) -> Result<usize> {
        with_proc_path(fd.raw(), None, |path| {
            self.getxattr(XattrOf::File(path), name, to)
        })
    }

    /// The names, each with a NUL.
    pub fn list_attributes(self, fd: impl Descriptor, to: &mut [u8]) -> Result<usize> {
        with_proc_path(fd.raw(), None, |path| {
            self.listxattr(XattrOf::File(path), to)
        })
    }

    /// `flags`: 0, XATTR_CREATE or XATTR_REPLACE.
    pub fn set_attribute(
        self,
        fd: impl Descriptor,
        name: &CStr,
        value: &[u8],
        flags: i32,
    ) -> Result<()> {
        with_proc_path(fd.raw(), None, |path| {
            self.setxattr(XattrOf::File(path), name, value, flags)
        })
    }

    /// ENODATA if there is none.
    pub fn remove_attribute(self, fd: impl Descriptor, name: &CStr) -> Result<()> {
        with_proc_path(fd.raw(), None, |path| {
            self.removexattr(XattrOf::File(path), name)
        })
    }

    /// FS_IOC_GETFLAGS, SETFLAGS, FSGETXATTR and FSSETXATTR; ENOTTY for others,
    /// whose data may be of any size.
    pub fn flags_ioctl(
        self,
        fd: impl Descriptor,
        request: u32,
        data: &mut FlagsData,
    ) -> Result<()> {
        match crate::flags::is_known(request) {
            true => self.ioctl(fd, request, data),
            false => Err(Errno(libc::ENOTTY)),
        }
    }

    /// From now on this thread has a umask of its own.
    pub fn unshare_umask(self) -> Result<()> {
        call!(self, libc::SYS_unshare, libc::CLONE_FS).map(drop)
    }

    /// New files of this thread belong to this user and group from now on. It
    /// keeps its capabilities, so that nothing else changes for it.
    pub fn set_file_owner(self, uid: u32, gid: u32) -> Result<()> {
        call!(self, libc::SYS_setfsgid, gid)?;
        call!(self, libc::SYS_setfsuid, uid)?;
        let header = CapHeader {
            version: CAP_VERSION_3,
            pid: 0,
        };
        let mut data = [CapData::default(); 2];
        call!(self, libc::SYS_capget, &raw const header, data.as_mut_ptr())?;
        for set in &mut data {
            set.effective = set.permitted;
        }
        call!(self, libc::SYS_capset, &raw const header, data.as_ptr()).map(drop)
    }
}

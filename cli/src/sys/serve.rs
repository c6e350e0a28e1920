//! The calls that serving a file system to others takes, beside those that
//! copying does. Each method is the system call of its name.

use super::calls::{args, call};
use super::errno::{Errno, Result};
use super::{Fd, Sys};
use std::ffi::{CStr, CString};

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

impl<'a> Sys<'a> {
    pub fn fsync(self, fd: &Fd, data_only: bool) -> Result<()> {
        let done = match data_only {
            true => call!(self, SYS_fdatasync, fd.raw()),
            false => call!(self, SYS_fsync, fd.raw()),
        };
        done.map(drop)
    }

    pub fn fallocate(self, fd: &Fd, mode: i32, at: u64, length: u64) -> Result<()> {
        call!(self, SYS_fallocate, fd.raw(), mode, at, length).map(drop)
    }

    /// Within this side.
    pub fn copy_range(
        self,
        (from, mut at): (&Fd, u64),
        (to, mut position): (&Fd, u64),
        length: u64,
    ) -> Result<usize> {
        let (at, position) = (&raw mut at, &raw mut position);
        let (from, to) = (from.raw(), to.raw());
        call!(self, SYS_copy_file_range, from, at, to, position, length, 0)
    }

    /// Another name for an open file, of any kind.
    pub fn link_fd(self, fd: &Fd, dir: &Fd, name: &CStr) -> Result<()> {
        let flags = libc::AT_EMPTY_PATH;
        let (from, to) = (fd.raw(), dir.raw());
        call!(
            self,
            SYS_linkat,
            from,
            c"".as_ptr(),
            to,
            name.as_ptr(),
            flags
        )
        .map(drop)
    }

    /// The target of a link that is open by O_PATH.
    pub fn readlink_fd(self, fd: &Fd) -> Result<Vec<u8>> {
        self.readlink(fd, c"")
    }

    /// Changes the mode of a file that is open by O_PATH. EOPNOTSUPP for a link.
    pub fn chmod_path(self, fd: &Fd, mode: u32) -> Result<()> {
        let path = self.path_of(fd);
        let here = libc::AT_FDCWD;
        call!(self, SYS_fchmodat, here, path.as_ptr(), mode).map(drop)
    }

    /// What stands for an open file in calls that take a path only. The link
    /// there leads to the file itself, also if it is a symlink.
    fn path_of(self, fd: &Fd) -> CString {
        CString::new(format!("/proc/self/fd/{}", fd.raw())).unwrap_or_default()
    }

    /// These four work on files that are open by O_PATH too.
    pub fn get_attribute(self, fd: &Fd, name: &CStr, to: &mut [u8]) -> Result<usize> {
        let path = self.path_of(fd);
        let (path, name) = (path.as_ptr(), name.as_ptr());
        call!(self, SYS_getxattr, path, name, to.as_mut_ptr(), to.len())
    }

    pub fn list_attributes(self, fd: &Fd, to: &mut [u8]) -> Result<usize> {
        let path = self.path_of(fd);
        call!(
            self,
            SYS_listxattr,
            path.as_ptr(),
            to.as_mut_ptr(),
            to.len()
        )
    }

    pub fn set_attribute(self, fd: &Fd, name: &CStr, value: &[u8], flags: i32) -> Result<()> {
        let path = self.path_of(fd);
        let (path, name) = (path.as_ptr(), name.as_ptr());
        let (at, len) = (value.as_ptr(), value.len());
        call!(self, SYS_setxattr, path, name, at, len, flags).map(drop)
    }

    pub fn remove_attribute(self, fd: &Fd, name: &CStr) -> Result<()> {
        let path = self.path_of(fd);
        call!(self, SYS_removexattr, path.as_ptr(), name.as_ptr()).map(drop)
    }

    /// FS_IOC_GETFLAGS, SETFLAGS, FSGETXATTR and FSSETXATTR; ENOTTY for others,
    /// whose data may be of any size.
    pub fn flags_ioctl(self, fd: &Fd, request: u32, data: &mut FlagsData) -> Result<()> {
        match super::flags::is_known(request) {
            true => self.ioctl(fd, request, data),
            false => Err(Errno(libc::ENOTTY)),
        }
    }

    /// From now on this thread has a umask of its own.
    pub fn unshare_umask(self) -> Result<()> {
        call!(self, SYS_unshare, libc::CLONE_FS).map(drop)
    }

    /// New files of this thread belong to this user and group from now on. It
    /// keeps its capabilities, so that nothing else changes for it.
    pub fn set_file_owner(self, uid: u32, gid: u32) -> Result<()> {
        call!(self, SYS_setfsgid, gid as usize)?;
        call!(self, SYS_setfsuid, uid as usize)?;
        let header = CapHeader {
            version: CAP_VERSION_3,
            pid: 0,
        };
        let mut data = [CapData::default(); 2];
        call!(self, SYS_capget, &raw const header, data.as_mut_ptr())?;
        for set in &mut data {
            set.effective = set.permitted;
        }
        call!(self, SYS_capset, &raw const header, data.as_ptr()).map(drop)
    }
}

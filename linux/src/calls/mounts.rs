//! Mounting: the calls of fsopen(2), and the old one.

use super::Sys;
use crate::errno::Result;
use crate::{Descriptor, Linux};
use std::ffi::CStr;

/// How fsconfig(2) is used here.
pub enum Config<'a> {
    /// An option without a value.
    Flag(&'a CStr),
    /// An option and its value.
    String(&'a CStr, &'a CStr),
    /// Make the file system ready to be mounted.
    Create,
}

/// Descriptors are numbers, which the caller owns.
impl<L: Linux + ?Sized> Sys<'_, L> {
    /// fsopen(2), closed on exec.
    pub fn fsopen(self, fstype: &CStr) -> Result<i32> {
        const FSOPEN_CLOEXEC: u32 = 1;
        call!(self, libc::SYS_fsopen, fstype.as_ptr(), FSOPEN_CLOEXEC).map(|fd| fd as i32)
    }

    /// fsconfig(2).
    pub fn fsconfig(self, fs: impl Descriptor, config: &Config<'_>) -> Result<()> {
        const SET_FLAG: u32 = 0;
        const SET_STRING: u32 = 1;
        const CMD_CREATE: u32 = 6;
        let null = std::ptr::null();
        let (command, key, value) = match config {
            Config::Flag(key) => (SET_FLAG, key.as_ptr(), null),
            Config::String(key, value) => (SET_STRING, key.as_ptr(), value.as_ptr()),
            Config::Create => (CMD_CREATE, null, null),
        };
        call!(self, libc::SYS_fsconfig, fs.raw(), command, key, value, 0).map(drop)
    }

    /// fsmount(2), closed on exec; `attributes`: MOUNT_ATTR_ bits.
    pub fn fsmount(self, fs: impl Descriptor, attributes: u64) -> Result<i32> {
        const FSMOUNT_CLOEXEC: u32 = 1;
        call!(
            self,
            libc::SYS_fsmount,
            fs.raw(),
            FSMOUNT_CLOEXEC,
            attributes
        )
        .map(|fd| fd as i32)
    }

    /// Attach what fsmount made.
    pub fn move_mount(self, mount: impl Descriptor, to: &CStr) -> Result<()> {
        const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;
        let (from, to) = (c"".as_ptr(), to.as_ptr());
        let (cwd, flags) = (libc::AT_FDCWD, MOVE_MOUNT_F_EMPTY_PATH);
        call!(
            self,
            libc::SYS_move_mount,
            mount.raw(),
            from,
            cwd,
            to,
            flags
        )
        .map(drop)
    }

    /// umount2(2), of no symlink.
    pub fn umount(self, path: &CStr, flags: i32) -> Result<()> {
        let flags = flags | libc::UMOUNT_NOFOLLOW;
        call!(self, libc::SYS_umount2, path.as_ptr(), flags).map(drop)
    }

    /// mount(2) of what needs no device.
    pub fn mount_plain(self, fstype: &CStr, at: &CStr) -> Result<()> {
        let (kind, at) = (fstype.as_ptr(), at.as_ptr());
        call!(self, libc::SYS_mount, kind, at, kind, 0, 0).map(drop)
    }
}

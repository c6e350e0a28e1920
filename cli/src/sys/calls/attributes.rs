//! What files have beside their content: inodes, modes, owners, times.

use super::Sys;
use crate::sys::{errno::Result, Fd, Stat, Time};
use std::ffi::CStr;
use std::mem::MaybeUninit;

impl Sys<'_> {
    pub fn fstat(self, fd: &Fd) -> Result<Stat> {
        let mut out = MaybeUninit::<libc::stat>::uninit();
        call!(self, SYS_fstat, fd.raw(), out.as_mut_ptr())?;
        // SAFETY: the call succeeded, so the kernel filled it in.
        Ok(unsafe { out.assume_init() }.into())
    }

    pub fn fstatat(self, dir: &Fd, name: &CStr, flags: i32) -> Result<Stat> {
        let mut out = MaybeUninit::<libc::stat>::uninit();
        call!(
            self,
            SYS_newfstatat,
            dir.raw(),
            name.as_ptr(),
            out.as_mut_ptr(),
            flags
        )?;
        // SAFETY: the call succeeded, so the kernel filled it in.
        Ok(unsafe { out.assume_init() }.into())
    }

    /// lstat of a directory's entry.
    pub fn lstat(self, dir: &Fd, name: &CStr) -> Result<Stat> {
        self.fstatat(dir, name, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// When the file was created, where the file system remembers.
    pub fn birth_time(self, fd: &Fd) -> Option<Time> {
        let out = self.statx(fd, libc::STATX_BTIME)?;
        Some(Time {
            sec: out.stx_btime.tv_sec,
            nsec: out.stx_btime.tv_nsec,
        })
    }

    /// The mount that a file was reached by.
    pub fn mount_id(self, fd: &Fd) -> Option<u64> {
        Some(self.statx(fd, libc::STATX_MNT_ID)?.stx_mnt_id)
    }

    /// None: it does not know all that is asked for.
    fn statx(self, fd: &Fd, mask: u32) -> Option<libc::statx> {
        let mut out = MaybeUninit::<libc::statx>::zeroed();
        let flags = libc::AT_EMPTY_PATH;
        call!(
            self,
            SYS_statx,
            fd.raw(),
            c"".as_ptr(),
            flags,
            mask,
            out.as_mut_ptr()
        )
        .ok()?;
        // SAFETY: all zeroes is a valid statx, and the kernel wrote over it.
        let out = unsafe { out.assume_init() };
        (out.stx_mask & mask == mask).then_some(out)
    }

    pub fn fchmod(self, fd: &Fd, mode: u32) -> Result<()> {
        call!(self, SYS_fchmod, fd.raw(), mode).map(drop)
    }

    /// Follows a symlink: Linux has no modes on symlinks.
    pub fn chmod(self, dir: &Fd, name: &CStr, mode: u32) -> Result<()> {
        call!(self, SYS_fchmodat, dir.raw(), name.as_ptr(), mode).map(drop)
    }

    pub fn fchown(self, fd: &Fd, uid: u32, gid: u32) -> Result<()> {
        call!(self, SYS_fchown, fd.raw(), uid, gid).map(drop)
    }

    pub fn chown(self, dir: &Fd, name: &CStr, uid: u32, gid: u32, flags: i32) -> Result<()> {
        call!(
            self,
            SYS_fchownat,
            dir.raw(),
            name.as_ptr(),
            uid,
            gid,
            flags
        )
        .map(drop)
    }

    pub fn futimens(self, fd: &Fd, times: &[libc::timespec; 2]) -> Result<()> {
        call!(self, SYS_utimensat, fd.raw(), 0, times.as_ptr(), 0).map(drop)
    }

    pub fn utimens(
        self,
        dir: &Fd,
        name: &CStr,
        times: &[libc::timespec; 2],
        flags: i32,
    ) -> Result<()> {
        call!(
            self,
            SYS_utimensat,
            dir.raw(),
            name.as_ptr(),
            times.as_ptr(),
            flags
        )
        .map(drop)
    }
}

//! What files have beside their content: inodes, modes, owners, times.

use super::Sys;
use crate::errno::Result;
use crate::{Descriptor, Linux, Stat, Time};
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// fstatfs(2)'s structure; libc keeps the flags to itself.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct RawStatFs {
    pub fstype: i64,
    pub bsize: i64,
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    pub files: u64,
    pub ffree: u64,
    pub fsid: [i32; 2],
    pub namelen: i64,
    pub frsize: i64,
    pub flags: i64,
    pub spare: [i64; 4],
}

impl<L: Linux + ?Sized> Sys<'_, L> {
    /// fstat(2).
    pub fn fstat(self, fd: impl Descriptor) -> Result<Stat> {
        let mut out = MaybeUninit::<libc::stat>::uninit();
        call!(self, libc::SYS_fstat, fd.raw(), out.as_mut_ptr())?;
        // SAFETY: the call succeeded, so the kernel filled it in.
        Ok(unsafe { out.assume_init() }.into())
    }

    /// newfstatat(2); `flags`: AT_ bits.
    pub fn fstatat(self, dir: impl Descriptor, name: &CStr, flags: i32) -> Result<Stat> {
        let mut out = MaybeUninit::<libc::stat>::uninit();
        let (dir, name, at) = (dir.raw(), name.as_ptr(), out.as_mut_ptr());
        call!(self, libc::SYS_newfstatat, dir, name, at, flags)?;
        // SAFETY: the call succeeded, so the kernel filled it in.
        Ok(unsafe { out.assume_init() }.into())
    }

    /// lstat of a directory's entry.
    pub fn lstat(self, dir: impl Descriptor, name: &CStr) -> Result<Stat> {
        self.fstatat(dir, name, libc::AT_SYMLINK_NOFOLLOW)
    }

    /// When the file was created, where the file system remembers.
    pub fn birth_time(self, fd: impl Descriptor) -> Option<Time> {
        let out = self.statx_of(fd, libc::STATX_BTIME)?;
        Some(Time {
            sec: out.stx_btime.tv_sec,
            nsec: out.stx_btime.tv_nsec,
        })
    }

    /// The mount that a file was reached by.
    pub fn mount_id(self, fd: impl Descriptor) -> Option<u64> {
        Some(self.statx_of(fd, libc::STATX_MNT_ID)?.stx_mnt_id)
    }

    /// None: it does not know all that is asked for.
    fn statx_of(self, fd: impl Descriptor, mask: u32) -> Option<libc::statx> {
        let out = self.statx(fd, c"", 0, mask).ok()?;
        (out.stx_mask & mask == mask).then_some(out)
    }

    /// statx(2); an empty path is the descriptor itself. `mask`: STATX_ bits, of which
    /// `stx_mask` says what is known.
    pub fn statx(
        self,
        dir: impl Descriptor,
        path: &CStr,
        flags: i32,
        mask: u32,
    ) -> Result<libc::statx> {
        let mut out = MaybeUninit::<libc::statx>::zeroed();
        let flags = flags | libc::AT_EMPTY_PATH | libc::AT_STATX_SYNC_AS_STAT;
        let (dir, path, at) = (dir.raw(), path.as_ptr(), out.as_mut_ptr());
        call!(self, libc::SYS_statx, dir, path, flags, mask, at)?;
        // SAFETY: zeroes are a valid statx, and the kernel wrote over them.
        Ok(unsafe { out.assume_init() })
    }

    /// fstatfs(2).
    pub fn fstatfs(self, fd: impl Descriptor) -> Result<RawStatFs> {
        let mut out = RawStatFs::default();
        call!(self, libc::SYS_fstatfs, fd.raw(), &raw mut out)?;
        Ok(out)
    }

    /// fchmod(2).
    pub fn fchmod(self, fd: impl Descriptor, mode: u32) -> Result<()> {
        call!(self, libc::SYS_fchmod, fd.raw(), mode).map(drop)
    }

    /// Follows a symlink: Linux has no modes on symlinks.
    pub fn chmod(self, dir: impl Descriptor, name: &CStr, mode: u32) -> Result<()> {
        call!(self, libc::SYS_fchmodat, dir.raw(), name.as_ptr(), mode).map(drop)
    }

    /// Never follows a link, for which it is EOPNOTSUPP on most file systems. An empty
    /// path is the descriptor itself. Since Linux 6.6.
    pub fn chmodat(self, dir: impl Descriptor, path: &CStr, mode: u32) -> Result<()> {
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
        let (dir, path) = (dir.raw(), path.as_ptr());
        call!(self, libc::SYS_fchmodat2, dir, path, mode, flags).map(drop)
    }

    /// fchown(2).
    pub fn fchown(self, fd: impl Descriptor, uid: u32, gid: u32) -> Result<()> {
        call!(self, libc::SYS_fchown, fd.raw(), uid, gid).map(drop)
    }

    /// fchownat(2).
    pub fn chown(
        self,
        dir: impl Descriptor,
        name: &CStr,
        uid: u32,
        gid: u32,
        flags: i32,
    ) -> Result<()> {
        let (dir, name) = (dir.raw(), name.as_ptr());
        call!(self, libc::SYS_fchownat, dir, name, uid, gid, flags).map(drop)
    }

    /// Access and modification time of an open file.
    pub fn futimens(self, fd: impl Descriptor, times: &[libc::timespec; 2]) -> Result<()> {
        call!(self, libc::SYS_utimensat, fd.raw(), 0, times.as_ptr(), 0).map(drop)
    }

    /// utimensat(2).
    pub fn utimens(
        self,
        dir: impl Descriptor,
        name: &CStr,
        times: &[libc::timespec; 2],
        flags: i32,
    ) -> Result<()> {
        let (dir, name, times) = (dir.raw(), name.as_ptr(), times.as_ptr());
        call!(self, libc::SYS_utimensat, dir, name, times, flags).map(drop)
    }
}

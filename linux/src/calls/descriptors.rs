//! Descriptors and what the process has: opening, closing, limits.

use super::Sys;
use crate::errno::{Errno, Result};
use crate::{Descriptor, Linux};
use std::ffi::CStr;

/// How often openat2 is asked again.
const TRIES: u32 = 10_000;

/// openat2's structure.
#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}

/// Calls that give a descriptor give its number, which the caller owns.
impl<L: Linux + ?Sized> Sys<'_, L> {
    /// openat(2), closed on exec.
    pub fn open_number(
        self,
        dir: impl Descriptor,
        path: &CStr,
        flags: i32,
        mode: u32,
    ) -> Result<i32> {
        let flags = flags | libc::O_CLOEXEC;
        call!(
            self,
            libc::SYS_openat,
            dir.raw(),
            path.as_ptr(),
            flags,
            mode
        )
        .map(|fd| fd as i32)
    }

    /// openat2(2), closed on exec; `resolve`: RESOLVE_ bits.
    pub fn open2_number(
        self,
        dir: impl Descriptor,
        path: &CStr,
        flags: i32,
        mode: u32,
        resolve: u64,
    ) -> Result<i32> {
        let how = OpenHow {
            flags: (flags | libc::O_CLOEXEC) as u64,
            mode: mode.into(),
            resolve,
        };
        let (how, size) = (&raw const how, size_of::<OpenHow>());
        let mut tries = 0;
        loop {
            tries += 1;
            match call!(self, libc::SYS_openat2, dir.raw(), path.as_ptr(), how, size) {
                // A rename raced with a "..": the manual says to try again.
                Err(Errno(libc::EAGAIN)) if tries < TRIES => {}
                other => return other.map(|fd| fd as i32),
            }
        }
    }

    /// A further descriptor of the same open file, closed on exec.
    pub fn dup_number(self, fd: impl Descriptor) -> Result<i32> {
        call!(self, libc::SYS_fcntl, fd.raw(), libc::F_DUPFD_CLOEXEC, 0).map(|fd| fd as i32)
    }

    /// Nobody is there to hear of an error: syncing is where they show.
    pub fn close(self, fd: i32) {
        let _ = call!(self, libc::SYS_close, fd);
    }

    /// `data` is what this request reads or writes, and as long.
    pub fn ioctl<T>(self, fd: impl Descriptor, request: u32, data: &mut T) -> Result<()> {
        let data = std::ptr::from_mut(data);
        call!(self, libc::SYS_ioctl, fd.raw(), request, data).map(drop)
    }

    /// One whose argument is a descriptor.
    pub(crate) fn ioctl_fd(
        self,
        fd: impl Descriptor,
        request: u32,
        other: impl Descriptor,
    ) -> Result<()> {
        call!(self, libc::SYS_ioctl, fd.raw(), request, other.raw()).map(drop)
    }

    /// Of this process in that kernel.
    pub fn umask(self, mask: u32) {
        let _ = call!(self, libc::SYS_umask, mask);
    }

    /// Lets this process keep so many files open, at most.
    pub fn limit_open_files(self, count: u64) -> Result<()> {
        let limit = [count; 2];
        let (what, at) = (libc::RLIMIT_NOFILE, limit.as_ptr());
        call!(self, libc::SYS_prlimit64, 0, what, at, 0).map(drop)
    }

    /// Lets this process keep as many files open as it may.
    pub fn raise_open_files(self) {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let kind = libc::RLIMIT_NOFILE;
        if call!(self, libc::SYS_prlimit64, 0, kind, 0, &raw mut limit).is_ok() {
            limit.rlim_cur = limit.rlim_max;
            let _ = call!(self, libc::SYS_prlimit64, 0, kind, &raw const limit, 0);
        }
    }
}

//! The system calls the command needs, with types.

use super::errno::{Errno, Result};
use super::{Fd, Side};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ops::Deref;

/// A path or name as the kernel wants it. A NUL inside is EINVAL.
pub struct Name(CString);

impl Name {
    pub fn new(bytes: &[u8]) -> Result<Name> {
        CString::new(bytes)
            .map(Name)
            .map_err(|_| Errno(libc::EINVAL))
    }
}

impl Deref for Name {
    type Target = CStr;
    fn deref(&self) -> &CStr {
        &self.0
    }
}

/// A side with typed calls. Each method is the system call of its name.
#[derive(Clone, Copy)]
pub struct Sys<'a>(pub &'a dyn Side);

/// Builds the argument array; descriptors and flags are sign-extended.
macro_rules! args {
    ($($a:expr),*) => {{
        let mut all = [0usize; 6];
        let given = [$($a as isize as usize),*];
        all[..given.len()].copy_from_slice(&given);
        all
    }};
}

macro_rules! call {
    ($sys:expr, $nr:ident $(, $a:expr)*) => {{
        // SAFETY: every pointer in these calls is a live CStr, slice or struct
        // of the size the kernel expects, borrowed for the length of the call.
        let result = unsafe { $sys.0.call(libc::$nr, args!($($a),*)) };
        if result < 0 { Err($crate::sys::Errno(-result as i32)) } else { Ok(result as usize) }
    }};
}

#[cfg(feature = "fuse")]
pub(super) use {args, call};

// After the macros, which they use.
mod attributes;
mod data;
mod entries;
mod xattrs;

impl<'a> Sys<'a> {
    pub fn openat_raw(self, dir: i32, path: &CStr, flags: i32, mode: u32) -> Result<Fd<'a>> {
        let flags = flags | libc::O_CLOEXEC;
        call!(self, SYS_openat, dir, path.as_ptr(), flags, mode).map(|fd| Fd::new(self, fd as i32))
    }

    pub fn openat(self, dir: &Fd, name: &CStr, flags: i32, mode: u32) -> Result<Fd<'a>> {
        self.openat_raw(dir.raw(), name, flags, mode)
    }

    pub fn openat2(self, dir: &Fd, path: &CStr, flags: i32, resolve: u64) -> Result<Fd<'a>> {
        let how = [(flags | libc::O_CLOEXEC) as u64, 0, resolve];
        loop {
            match call!(
                self,
                SYS_openat2,
                dir.raw(),
                path.as_ptr(),
                how.as_ptr(),
                24
            ) {
                // A rename raced with a "..": the manual says to try again.
                Err(Errno(libc::EAGAIN)) => {}
                other => return other.map(|fd| Fd::new(self, fd as i32)),
            }
        }
    }

    /// A further descriptor of the same open file.
    pub fn duplicate(self, fd: &Fd) -> Result<Fd<'a>> {
        let command = libc::F_DUPFD_CLOEXEC;
        call!(self, SYS_fcntl, fd.raw(), command, 0).map(|fd| Fd::new(self, fd as i32))
    }

    pub fn close(self, fd: i32) {
        let _ = call!(self, SYS_close, fd);
    }

    pub fn fstatfs(self, fd: &Fd) -> Result<libc::statfs> {
        let mut out = MaybeUninit::<libc::statfs>::uninit();
        call!(self, SYS_fstatfs, fd.raw(), out.as_mut_ptr())?;
        // SAFETY: the call succeeded, so the kernel filled it in.
        Ok(unsafe { out.assume_init() })
    }

    /// `data` is what this request reads or writes.
    pub(in crate::sys) fn ioctl<T>(self, fd: &Fd, request: u32, data: &mut T) -> Result<()> {
        let data = std::ptr::from_mut(data);
        call!(self, SYS_ioctl, fd.raw(), request, data).map(drop)
    }

    /// One whose argument is a descriptor.
    pub(in crate::sys) fn ioctl_fd(self, fd: &Fd, request: u32, other: &Fd) -> Result<()> {
        call!(self, SYS_ioctl, fd.raw(), request, other.raw()).map(drop)
    }

    pub fn syncfs(self, fd: &Fd) -> Result<()> {
        call!(self, SYS_syncfs, fd.raw()).map(drop)
    }

    pub fn umask(self, mask: u32) {
        let _ = call!(self, SYS_umask, mask);
    }

    /// Lets this process keep as many files open as it may.
    pub fn raise_open_files(self) {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let kind = libc::RLIMIT_NOFILE;
        if call!(self, SYS_prlimit64, 0, kind, 0, &raw mut limit).is_ok() {
            limit.rlim_cur = limit.rlim_max;
            let _ = call!(self, SYS_prlimit64, 0, kind, &raw const limit, 0);
        }
    }
}

//! The system calls the command needs, with types.

use super::errno::{Errno, Result};
use super::stat::Time;
use super::{Fd, Side, Stat};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::AsRawFd;

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
        if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as usize) }
    }};
}

#[cfg(feature = "fuse")]
pub(super) use {args, call};

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

    pub fn close(self, fd: i32) {
        let _ = call!(self, SYS_close, fd);
    }

    pub fn read(self, fd: &Fd, to: &mut [u8]) -> Result<usize> {
        self.again(|| call!(self, SYS_read, fd.raw(), to.as_ptr(), to.len()))
    }

    pub fn pread(self, fd: &Fd, to: &mut [u8], at: u64) -> Result<usize> {
        self.again(|| call!(self, SYS_pread64, fd.raw(), to.as_ptr(), to.len(), at))
    }

    /// Fills the buffer as far as the file goes.
    pub fn pread_all(self, fd: &Fd, to: &mut [u8], at: u64) -> Result<usize> {
        let mut done = 0;
        while done < to.len() {
            match self.pread(fd, &mut to[done..], at + done as u64)? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    pub fn pwrite_all(self, fd: &Fd, mut from: &[u8], mut at: u64) -> Result<()> {
        while !from.is_empty() {
            let n =
                self.again(|| call!(self, SYS_pwrite64, fd.raw(), from.as_ptr(), from.len(), at))?;
            if n == 0 {
                return Err(Errno(libc::EIO));
            }
            from = &from[n..];
            at += n as u64;
        }
        Ok(())
    }

    /// Copies up to `len` bytes from the host's file into one of this side,
    /// which must be the host's, sharing them where the file system can.
    pub fn copy_file_range(
        self,
        from: &File,
        mut at: u64,
        fd: &Fd,
        mut to: u64,
        len: u64,
    ) -> Result<u64> {
        let (source, target) = (from.as_raw_fd(), fd.raw());
        let (at, to) = (&raw mut at, &raw mut to);
        let call = || call!(self, SYS_copy_file_range, source, at, target, to, len, 0);
        self.again(call).map(|n| n as u64)
    }

    /// As [`Self::copy_file_range`], between any two file systems. Moves the
    /// position of `fd`.
    pub fn sendfile(self, from: &File, mut at: u64, fd: &Fd, to: u64, len: u64) -> Result<u64> {
        self.lseek(fd, to, libc::SEEK_SET)?;
        let (source, target) = (from.as_raw_fd(), fd.raw());
        let at = &raw mut at;
        let call = || call!(self, SYS_sendfile, target, source, at, len);
        self.again(call).map(|n| n as u64)
    }

    fn again(self, call: impl Fn() -> Result<usize>) -> Result<usize> {
        loop {
            match call() {
                Err(Errno(libc::EINTR)) => {}
                other => return other,
            }
        }
    }

    pub fn lseek(self, fd: &Fd, offset: u64, whence: i32) -> Result<u64> {
        call!(self, SYS_lseek, fd.raw(), offset, whence).map(|n| n as u64)
    }

    /// Drops what is cached of a part of a file, in a kernel that is ours alone:
    /// memory that is used again is faster than memory that is new.
    pub fn forget(self, fd: &Fd, at: u64, length: u64) {
        if self.0.is_ours() {
            let advice = libc::POSIX_FADV_DONTNEED;
            let _ = call!(self, SYS_fadvise64, fd.raw(), at, length, advice);
        }
    }

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
        let mut out = MaybeUninit::<libc::statx>::zeroed();
        let (flags, mask) = (libc::AT_EMPTY_PATH, libc::STATX_BTIME);
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
        let time = Time {
            sec: out.stx_btime.tv_sec,
            nsec: out.stx_btime.tv_nsec,
        };
        (out.stx_mask & libc::STATX_BTIME != 0).then_some(time)
    }

    pub fn fstatfs(self, fd: &Fd) -> Result<libc::statfs> {
        let mut out = MaybeUninit::<libc::statfs>::uninit();
        call!(self, SYS_fstatfs, fd.raw(), out.as_mut_ptr())?;
        // SAFETY: the call succeeded, so the kernel filled it in.
        Ok(unsafe { out.assume_init() })
    }

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

    pub fn ftruncate(self, fd: &Fd, size: u64) -> Result<()> {
        call!(self, SYS_ftruncate, fd.raw(), size).map(drop)
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

    /// `data` is what this request reads or writes.
    pub(super) fn ioctl<T>(self, fd: &Fd, request: u32, data: &mut T) -> Result<()> {
        let data = std::ptr::from_mut(data);
        call!(self, SYS_ioctl, fd.raw(), request, data).map(drop)
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
}

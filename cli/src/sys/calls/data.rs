//! What files contain.

use super::Sys;
use crate::sys::{errno::Result, Errno, Fd};
use std::fs::File;
use std::os::fd::AsRawFd;

impl Sys<'_> {
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

    pub fn pwrite_all(self, fd: &Fd, from: &[u8], at: u64) -> Result<()> {
        // SAFETY: a slice is memory that can be read.
        unsafe { self.pwrite_all_at(fd, from.as_ptr(), from.len(), at) }
    }

    /// As [`Self::pwrite_all`], of memory that others may write meanwhile.
    ///
    /// # Safety
    /// All of it must be mapped.
    pub unsafe fn pwrite_all_at(
        self,
        fd: &Fd,
        mut from: *const u8,
        mut len: usize,
        mut at: u64,
    ) -> Result<()> {
        while len > 0 {
            match self.again(|| call!(self, SYS_pwrite64, fd.raw(), from, len, at))? {
                n @ 1.. if n <= len => {
                    // SAFETY: of the same memory, its end at most.
                    from = unsafe { from.add(n) };
                    len -= n;
                    at += n as u64;
                }
                _ => return Err(Errno(libc::EIO)),
            }
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

    pub fn ftruncate(self, fd: &Fd, size: u64) -> Result<()> {
        call!(self, SYS_ftruncate, fd.raw(), size).map(drop)
    }
}

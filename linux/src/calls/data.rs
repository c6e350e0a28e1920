//! What files contain.

use super::Sys;
use crate::errno::{Errno, Result};
use crate::{Descriptor, Linux};
use std::fs::File;
use std::os::fd::AsRawFd;

/// What is written back.
#[derive(Clone, Copy, Debug)]
pub enum Sync {
    /// fsync(2).
    All,
    /// fdatasync(2).
    Data,
    /// syncfs(2).
    FileSystem,
}

impl<L: Linux + ?Sized> Sys<'_, L> {
    /// read(2).
    pub fn read(self, fd: impl Descriptor, to: &mut [u8]) -> Result<usize> {
        call!(self, libc::SYS_read, fd.raw(), to.as_mut_ptr(), to.len())
    }

    /// write(2).
    pub fn write(self, fd: impl Descriptor, from: &[u8]) -> Result<usize> {
        call!(self, libc::SYS_write, fd.raw(), from.as_ptr(), from.len())
    }

    /// pread(2).
    pub fn pread(self, fd: impl Descriptor, to: &mut [u8], at: u64) -> Result<usize> {
        let (address, len) = (to.as_mut_ptr(), to.len());
        call!(self, libc::SYS_pread64, fd.raw(), address, len, at)
    }

    /// pwrite(2).
    pub fn pwrite(self, fd: impl Descriptor, from: &[u8], at: u64) -> Result<usize> {
        let (address, len) = (from.as_ptr(), from.len());
        call!(self, libc::SYS_pwrite64, fd.raw(), address, len, at)
    }

    /// As [`Self::read`], again if a signal comes between.
    pub fn read_again(self, fd: impl Descriptor, to: &mut [u8]) -> Result<usize> {
        self.again(|| self.read(&fd, to))
    }

    /// Fills the buffer as far as the file goes.
    pub fn pread_all(self, fd: impl Descriptor, to: &mut [u8], at: u64) -> Result<usize> {
        let mut done = 0;
        while done < to.len() {
            match self.again(|| self.pread(&fd, &mut to[done..], at + done as u64))? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }

    /// Writes all of it.
    pub fn pwrite_all(self, fd: impl Descriptor, from: &[u8], at: u64) -> Result<()> {
        // SAFETY: a slice is memory that can be read.
        unsafe { self.pwrite_all_at(fd, from.as_ptr(), from.len(), at) }
    }

    /// As [`Self::pwrite_all`], of memory that others may write meanwhile.
    ///
    /// # Safety
    /// All of it must be mapped.
    pub unsafe fn pwrite_all_at(
        self,
        fd: impl Descriptor,
        mut from: *const u8,
        mut len: usize,
        mut at: u64,
    ) -> Result<()> {
        while len > 0 {
            match self.again(|| call!(self, libc::SYS_pwrite64, fd.raw(), from, len, at))? {
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

    /// Copies up to `len` bytes from the host's file into one of this kernel, which must
    /// be the host's, sharing them where the file system can.
    pub fn copy_file_range(
        self,
        from: &File,
        mut at: u64,
        fd: impl Descriptor,
        mut to: u64,
        len: u64,
    ) -> Result<u64> {
        let (source, target) = (from.as_raw_fd(), fd.raw());
        let (at, to) = (&raw mut at, &raw mut to);
        let nr = libc::SYS_copy_file_range;
        let call = || call!(self, nr, source, at, target, to, len, 0);
        self.again(call).map(|n| n as u64)
    }

    /// As [`Self::copy_file_range`], between any two file systems. Moves the
    /// position of `fd`.
    pub fn sendfile(
        self,
        from: &File,
        mut at: u64,
        fd: impl Descriptor,
        to: u64,
        len: u64,
    ) -> Result<u64> {
        self.lseek(&fd, to as i64, libc::SEEK_SET)?;
        let (source, target) = (from.as_raw_fd(), fd.raw());
        let at = &raw mut at;
        let call = || call!(self, libc::SYS_sendfile, target, source, at, len);
        self.again(call).map(|n| n as u64)
    }

    fn again(self, mut call: impl FnMut() -> Result<usize>) -> Result<usize> {
        loop {
            match call() {
                Err(Errno(libc::EINTR)) => {}
                other => return other,
            }
        }
    }

    /// lseek(2).
    pub fn lseek(self, fd: impl Descriptor, offset: i64, whence: i32) -> Result<u64> {
        call!(self, libc::SYS_lseek, fd.raw(), offset, whence).map(|n| n as u64)
    }

    /// Drops what is cached of a part of a file, in a kernel that is ours alone:
    /// memory that is used again is faster than memory that is new.
    pub fn forget(self, fd: impl Descriptor, at: u64, length: u64) {
        if self.0.is_ours() {
            let advice = libc::POSIX_FADV_DONTNEED;
            let _ = call!(self, libc::SYS_fadvise64, fd.raw(), at, length, advice);
        }
    }

    /// ftruncate(2).
    pub fn ftruncate(self, fd: impl Descriptor, size: u64) -> Result<()> {
        call!(self, libc::SYS_ftruncate, fd.raw(), size).map(drop)
    }

    /// fallocate(2).
    pub fn fallocate(self, fd: impl Descriptor, mode: i32, at: u64, length: u64) -> Result<()> {
        call!(self, libc::SYS_fallocate, fd.raw(), mode, at, length).map(drop)
    }

    /// copy_file_range(2) within this kernel, at the places given, or at the positions
    /// of the files.
    pub fn copy_range(
        self,
        (from, mut at): (impl Descriptor, Option<u64>),
        (to, mut position): (impl Descriptor, Option<u64>),
        length: usize,
    ) -> Result<usize> {
        let place = |offset: &mut Option<u64>| match offset {
            Some(offset) => &raw mut *offset,
            None => std::ptr::null_mut(),
        };
        let (at, position) = (place(&mut at), place(&mut position));
        let nr = libc::SYS_copy_file_range;
        call!(self, nr, from.raw(), at, to.raw(), position, length, 0)
    }

    /// fsync(2), fdatasync(2) or syncfs(2).
    pub fn sync(self, fd: impl Descriptor, what: Sync) -> Result<()> {
        let nr = match what {
            Sync::All => libc::SYS_fsync,
            Sync::Data => libc::SYS_fdatasync,
            Sync::FileSystem => libc::SYS_syncfs,
        };
        call!(self, nr, fd.raw()).map(drop)
    }

    /// syncfs(2).
    pub fn syncfs(self, fd: impl Descriptor) -> Result<()> {
        self.sync(fd, Sync::FileSystem)
    }
}

//! An open file.

use crate::error::{Context, Errno, Result};
use crate::kernel::Kernel;
use crate::metadata::Metadata;
use crate::sys::{Fd, SysResult};
use crate::time::SetTimes;
use std::io::{self, Read, Seek, SeekFrom, Write};
use tane_linux::Sync;

/// A file inside a kernel, as [`std::fs::File`] is one of the host's.
///
/// Closed when dropped; closing reports no errors, [`File::sync_all`] does.
/// `&File` reads and writes too, and any thread may use it; threads that share
/// it share its position. Buffers are the program's own memory: data is copied
/// once, between it and the page cache; [`Buffer`](crate::Buffer) and
/// [`File::map`] save that.
pub struct File {
    pub(crate) fd: Fd,
}

impl File {
    pub(crate) fn new(fd: Fd) -> Self {
        File { fd }
    }

    /// What a system call gave out, such as memfd_create(2) or io_uring_setup(2).
    ///
    /// # Safety
    /// `fd` is an open descriptor of this kernel that nobody else closes.
    pub unsafe fn from_kernel_fd(kernel: &Kernel, fd: i32) -> File {
        File::new(Fd::new(kernel, fd, kernel.age()))
    }

    /// The kernel that serves it.
    pub fn kernel(&self) -> &Kernel {
        &self.fd.kernel
    }

    /// A system call whose first argument is this file, and then these: its answer, a
    /// negative errno if it failed. EBADF if the kernel went back to before the file was
    /// opened ([`Kernel::rollback`]), also in this very moment.
    ///
    /// # Safety
    /// The call may read and write what its arguments point to.
    pub unsafe fn syscall(&self, nr: i64, args: [u64; 5]) -> i64 {
        let [a, b, c, d, e] = args;
        let args = [self.fd.raw() as u64, a, b, c, d, e];
        // SAFETY: the caller's word.
        unsafe { self.fd.kernel.syscall(nr, args) }
    }

    /// The descriptor, for [`Kernel::syscall`](crate::Kernel::syscall). It is a
    /// number in the kernel's table, not in this process's.
    pub fn kernel_fd(&self) -> i32 {
        self.fd.number()
    }

    fn done<T>(result: SysResult<T>, action: &'static str) -> Result<T> {
        result.map_err(|errno| errno.during(action))
    }

    /// A second handle with the same position; dup(2).
    pub fn try_clone(&self) -> Result<File> {
        Self::done(self.fd.kernel.dup(&self.fd), "dup").map(File::new)
    }

    /// Read at a byte offset, leaving the position alone; pread(2). Returns the
    /// number of bytes; 0 at the end of the file.
    #[inline]
    pub fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.fd.sys().pread(&self.fd, to, offset)?)
    }

    /// Fill the whole buffer from a byte offset on, or fail with
    /// [`io::ErrorKind::UnexpectedEof`].
    pub fn read_exact_at(&self, mut to: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !to.is_empty() {
            match self.read_at(to, offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => {
                    to = &mut to[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Write at a byte offset, leaving the position alone; pwrite(2).
    #[inline]
    pub fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        Ok(self.fd.sys().pwrite(&self.fd, from, offset)?)
    }

    /// Write the whole buffer at a byte offset.
    pub fn write_all_at(&self, mut from: &[u8], mut offset: u64) -> io::Result<()> {
        while !from.is_empty() {
            match self.write_at(from, offset)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    from = &from[n..];
                    offset += n as u64;
                }
            }
        }
        Ok(())
    }

    /// Content and metadata reach the disk image before this returns; fsync(2).
    /// Errors of earlier writes show here.
    pub fn sync_all(&self) -> Result<()> {
        Self::done(self.fd.sys().sync(&self.fd, Sync::All), "fsync")
    }

    /// Like [`Self::sync_all`], without metadata that reading does not need;
    /// fdatasync(2).
    pub fn sync_data(&self) -> Result<()> {
        Self::done(self.fd.sys().sync(&self.fd, Sync::Data), "fdatasync")
    }

    /// Cut off or lengthen with a hole, in bytes; ftruncate(2).
    pub fn set_len(&self, len: u64) -> Result<()> {
        Self::done(self.fd.sys().ftruncate(&self.fd, len), "truncate")
    }

    /// Reserve space, or whatever else `mode` says: `libc::FALLOC_FL_` bits; 0
    /// reserves and lengthens. Offset and length in bytes; fallocate(2).
    pub fn allocate(&self, mode: i32, offset: u64, len: u64) -> Result<()> {
        let result = self.fd.sys().fallocate(&self.fd, mode, offset, len);
        Self::done(result, "fallocate")
    }

    /// Give the space of a range back; it reads as zeroes. The length of the
    /// file stays.
    pub fn punch_hole(&self, offset: u64, len: u64) -> Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        self.allocate(mode, offset, len)
    }

    /// The next byte offset that holds data, from `offset` on; None if only a
    /// hole follows. Moves the position; lseek(2), SEEK_DATA.
    pub fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        match self.seek_raw(offset as i64, libc::SEEK_DATA) {
            Ok(at) => Ok(Some(at)),
            Err(Errno(libc::ENXIO)) => Ok(None),
            Err(errno) => Err(errno.during("seek to data")),
        }
    }

    /// The next byte offset that lies in a hole, from `offset` on; the end of
    /// the file is one. Moves the position; lseek(2), SEEK_HOLE. ENXIO if
    /// `offset` is at or behind the end.
    pub fn seek_hole(&self, offset: u64) -> Result<u64> {
        Self::done(
            self.seek_raw(offset as i64, libc::SEEK_HOLE),
            "seek to hole",
        )
    }

    fn seek_raw(&self, offset: i64, whence: i32) -> SysResult<u64> {
        self.fd.sys().lseek(&self.fd, offset, whence)
    }

    /// What stat(2) says of it.
    pub fn metadata(&self) -> Result<Metadata> {
        Self::done(self.fd.kernel.fstatx(&self.fd), "stat").map(Metadata::new)
    }

    /// Permission bits, 0 to 0o7777; fchmod(2).
    pub fn set_permissions(&self, mode: u32) -> Result<()> {
        Self::done(self.fd.sys().chmodat(&self.fd, c"", mode), "chmod")
    }

    /// Owner and group; None leaves one as it is; fchown(2).
    pub fn set_owner(&self, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
        let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
        Self::done(
            self.fd
                .sys()
                .chown(&self.fd, c"", uid, gid, libc::AT_EMPTY_PATH),
            "chown",
        )
    }

    /// Access and modification time; futimens(3).
    pub fn set_times(&self, times: SetTimes) -> Result<()> {
        let times = times.to_timespecs();
        let result = self
            .fd
            .sys()
            .utimens(&self.fd, c"", &times, libc::AT_EMPTY_PATH);
        Self::done(result, "set the times")
    }

    /// Copy up to `len` bytes from this file's position to another's, inside
    /// the kernel, sharing blocks where the file system can; copy_file_range(2).
    /// Returns the number of bytes; 0 at the end of the file. EXDEV if the other
    /// file is of another kernel.
    pub fn copy_range_to(&self, to: &File, len: usize) -> Result<usize> {
        // A descriptor means nothing to another kernel.
        if !self.fd.kernel.is_same(&to.fd.kernel) {
            return Err(Errno(libc::EXDEV).during("copy_file_range"));
        }
        let result = self
            .fd
            .sys()
            .copy_range((&self.fd, None), (&to.fd, None), len);
        Self::done(result, "copy_file_range")
    }
}

impl Read for &File {
    #[inline]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.fd.sys().read(&self.fd, to)?)
    }
}

impl Write for &File {
    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(self.fd.sys().write(&self.fd, from)?)
    }

    /// There is nothing to flush: it does not sync.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for &File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let (offset, whence) = match to {
            SeekFrom::Start(at) => {
                let at = i64::try_from(at).map_err(|_| Errno(libc::EINVAL))?;
                (at, libc::SEEK_SET)
            }
            SeekFrom::Current(by) => (by, libc::SEEK_CUR),
            SeekFrom::End(by) => (by, libc::SEEK_END),
        };
        Ok(self.seek_raw(offset, whence)?)
    }
}

impl Read for File {
    #[inline]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&*self).read(to)
    }
}

impl Write for File {
    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for File {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        (&*self).seek(to)
    }
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({} of {:?})", self.fd.number(), self.fd.kernel)
    }
}

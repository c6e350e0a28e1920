//! Files as memory.

use crate::error::{Context, Errno, Result};
use crate::file::File;
use crate::kernel::Kernel;
use crate::region::{Region, Request, PAGE};
use std::fmt;

/// How a file is mapped. From [`MapOptions::new`] on it is the whole file,
/// shared and read-only.
#[derive(Clone, Copy, Debug, Default)]
pub struct MapOptions {
    range: Option<(u64, usize)>,
    write: bool,
    private: bool,
    populate: bool,
}

impl MapOptions {
    /// The whole file, to be read.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only `len` bytes from `offset` on; any offset.
    pub fn range(&mut self, offset: u64, len: usize) -> &mut Self {
        self.range = Some((offset, len));
        self
    }

    /// Let the bytes be changed. Shared, the file changes, which must be open
    /// for reading and writing.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// Changes stay in this mapping: a page is copied when it is first written.
    pub fn private(&mut self, private: bool) -> &mut Self {
        self.private = private;
        self
    }

    /// Read all of it now, rather than as it is touched. A first touch costs
    /// much more here than on a processor.
    pub fn populate(&mut self, populate: bool) -> &mut Self {
        self.populate = populate;
        self
    }

    /// The same as [`File::map`].
    pub fn map(&self, file: &File) -> Result<Map> {
        self.request(file).map_err(|errno| errno.during("mmap"))
    }

    fn request(&self, file: &File) -> std::result::Result<Map, Errno> {
        let kernel = file.kernel();
        let (offset, len) = match self.range {
            Some(range) => range,
            None => {
                let len = kernel.fstatx(&file.fd)?.stx_size;
                (0, usize::try_from(len).map_err(|_| Errno(libc::EOVERFLOW))?)
            }
        };
        if len == 0 {
            return Err(Errno(libc::EINVAL));
        }
        let before = (offset % PAGE as u64) as usize;
        let write = if self.write { libc::PROT_WRITE } else { 0 };
        let flags = match self.private {
            true => libc::MAP_PRIVATE,
            false => libc::MAP_SHARED,
        };
        let request = Request {
            len: len.checked_add(before).ok_or(Errno(libc::ENOMEM))?,
            prot: libc::PROT_READ | write,
            flags,
            file: Some(&file.fd),
            offset: offset - before as u64,
        };
        let region = Region::new(kernel, &request)?;
        if self.populate {
            region.populate(false)?;
        }
        Ok(Map {
            region,
            before,
            len,
            write: self.write,
        })
    }
}

/// A file of the kernel's as memory of this process; unmapped when dropped. It
/// stays valid when the file is closed.
///
/// A shared mapping and the calls that read and write the file see the same
/// bytes at once. The kernel reads a page when it is first touched, and up to
/// fifteen around it that are in its cache.
///
/// A page that cannot be had (it lies behind the end of the file, the disk fails,
/// the kernel was halted or has died) does not end the process, as it would on
/// Linux, but reads as zeroes; a write that the kernel refuses, as when the disk
/// is full, does not reach the file. [`Map::check`] and [`Map::flush`] then fail.
pub struct Map {
    region: Region,
    /// Bytes between the first page's start and the first byte that was asked for.
    before: usize,
    len: usize,
    write: bool,
}

// Always of at least one byte.
#[allow(clippy::len_without_is_empty)]
impl Map {
    /// Bytes, as many as were asked for.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first byte, valid while this lives. Others may change the bytes at
    /// any time, by this mapping, another one or a write(2): read them as you
    /// would read memory that another program writes.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.region.start().as_ptr().wrapping_add(self.before)
    }

    /// Like [`Map::as_ptr`]. EACCES if the mapping is read-only.
    #[inline]
    pub fn as_mut_ptr(&self) -> Result<*mut u8> {
        match self.write {
            true => Ok(self.as_ptr().cast_mut()),
            false => Err(Errno(libc::EACCES).during("write to a mapping")),
        }
    }

    /// The bytes.
    ///
    /// # Safety
    /// Nobody changes that part of the file, by whatever way, while the slice is
    /// borrowed. That holds for a file on a disk opened read-only, for instance.
    #[inline]
    pub unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: mapped while this lives; the caller's word for the rest.
        unsafe { std::slice::from_raw_parts(self.as_ptr(), self.len) }
    }

    /// The bytes, to be changed. EACCES if the mapping is read-only.
    ///
    /// # Safety
    /// Nobody reads or changes that part of the file while the slice is borrowed.
    #[inline]
    pub unsafe fn as_mut_slice(&mut self) -> Result<&mut [u8]> {
        let start = self.as_mut_ptr()?;
        // SAFETY: as above.
        Ok(unsafe { std::slice::from_raw_parts_mut(start, self.len) })
    }

    /// What was changed by then has reached the disk image when this returns;
    /// msync(2). Errors: as [`Map::check`], else of the writes.
    pub fn flush(&self) -> Result<()> {
        self.flush_range(0, self.len)
    }

    /// [`Map::flush`] for `len` bytes from the mapping's byte `offset` on, and
    /// what shares a page with them. EINVAL if the mapping has no such range.
    pub fn flush_range(&self, offset: usize, len: usize) -> Result<()> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        let synced = match inside {
            true => self.region.sync(self.before + offset, len),
            false => Err(Errno(libc::EINVAL)),
        };
        synced.map_err(|errno| errno.during("msync"))?;
        self.check()
    }

    /// Whether all that was read and written so far is the file's. EIO if a page
    /// could not be had or a write was refused; ESHUTDOWN if that was because the
    /// kernel has ended.
    pub fn check(&self) -> Result<()> {
        let check = self.region.check();
        check.map_err(|errno| errno.during("access a mapping"))
    }

    /// The kernel whose file it is.
    pub fn kernel(&self) -> &Kernel {
        self.region.kernel()
    }
}

impl File {
    /// Map it into this process; mmap(2).
    ///
    /// Errors: EINVAL nothing to map, such as an empty file; EACCES the file is
    /// not open for what the options ask; ENODEV its file system has no mappings;
    /// EFAULT, with [`MapOptions::populate`], it ends before the range does;
    /// ENOMEM the kernel's window for mappings is full.
    pub fn map(&self, options: &MapOptions) -> Result<Map> {
        options.map(self)
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Map({} bytes of {:?})", self.len, self.kernel())
    }
}

//! A raw image: a file or block device of the host.

use crate::backend::{check_range, in_steps, refuse_write, Backend, HostRange};
use crate::buffers::{buffer, total, Buffers};
use crate::direct::Direct;
use crate::errors::named;
use crate::host_files::open_host_file;
use crate::host_use;
use crate::lock::{Lock, LockWait};
use crate::transfer::{fallocate, read_at_once, read_full, write_at_once, write_full, AtOnce};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// For writing too, with a lock against a second writer.
    pub write: bool,
    /// Past the host's page cache (`O_DIRECT`).
    pub direct: bool,
}

/// A file or block device. Takes the host's advisory locks (flock(2), and those of
/// QEMU's programs) for as long as it is open: shared for reading, exclusive for
/// writing. What the host has mounted, as a block device or by a loop device, is not
/// opened for writing.
///
/// The file grows only by [`Backend::grow`]: a write behind its end is an error.
#[derive(Debug)]
pub struct Raw {
    file: Arc<File>,
    /// None for a file that was given open.
    lock: Option<Lock>,
    size: AtomicU64,
    write: bool,
    direct: Option<Direct>,
    block_sizes: (u32, u32),
    /// The host's file system cannot say "would block".
    no_read_at_once: AtomicBool,
    no_write_at_once: AtomicBool,
    /// The errno of the first flush that failed. The host forgets it once told,
    /// and one of two flushes at a time would not see it; but the data is lost.
    lost: AtomicI32,
    /// When it was opened. A temporary file may have none.
    had_name: bool,
}

impl Raw {
    /// Open `path`. Errors name the path and, where there is one, the remedy.
    pub fn open(path: &Path, access: Access) -> io::Result<Self> {
        Self::open_when_free(path, access, None)
    }

    /// Open it once those who have locked it have ended.
    pub fn open_when_free(
        path: &Path,
        access: Access,
        lock_wait: Option<&LockWait>,
    ) -> io::Result<Self> {
        let (file, lock) = loop {
            let file = Self::open_file(path, access)?;
            let lock = Lock::take(&file, path, access.write, lock_wait)?;
            // Who had it may have put another file in its place.
            if lock_wait.is_none() || !is_replaced(&file, path) {
                break (file, lock);
            }
        };
        let mut raw = Self::from_file(file, access).map_err(|e| named(path, e))?;
        raw.lock = Some(lock);
        Ok(raw)
    }

    fn open_file(path: &Path, access: Access) -> io::Result<File> {
        let named = |error: io::Error, what: &str| {
            io::Error::new(error.kind(), format!("{}: {what}{error}", path.display()))
        };
        let wrong =
            |kind, what: &str| Err(io::Error::new(kind, format!("{}: {what}", path.display())));
        // Before it is opened: opening a FIFO would wait, a tape would move.
        let found = path.metadata().map_err(|e| named(e, ""))?;
        let kind = found.file_type();
        if kind.is_dir() {
            return wrong(
                io::ErrorKind::IsADirectory,
                "is a directory, not a disk image",
            );
        }
        if !kind.is_file() && !kind.is_block_device() {
            return wrong(
                io::ErrorKind::InvalidInput,
                "is neither a file nor a block device",
            );
        }
        let busy = || host_use::of(&found, access.write).map(|used| used.refusal());
        let mut flags = if access.direct { libc::O_DIRECT } else { 0 };
        if access.write && kind.is_block_device() {
            // Without O_CREAT it means: fail if the host has it mounted.
            flags |= libc::O_EXCL;
        }
        let opened = open_host_file(path, access.write, flags);
        opened.map_err(|e| match e.raw_os_error() {
            Some(libc::EROFS | libc::EACCES | libc::EPERM) if access.write => {
                named(e, "cannot be opened for writing (open it read-only?): ")
            }
            Some(libc::EBUSY) => match busy() {
                Some(text) => io::Error::new(e.kind(), format!("{}: {text}", path.display())),
                None => named(e, "is in use by the host, or by another program: "),
            },
            Some(libc::ETXTBSY) => named(e, "is being executed by the host: "),
            Some(libc::EINVAL) if access.direct => {
                named(e, "its file system has no direct I/O; open it without: ")
            }
            _ => named(e, ""),
        })
    }

    /// From an open file, which is not locked here; `access` says how it was
    /// opened.
    pub fn from_file(file: File, access: Access) -> io::Result<Self> {
        let had_name = file.metadata()?.nlink() > 0;
        let direct = access.direct.then(|| Direct::new(&file));
        let unit = direct.as_ref().map_or(512, Direct::unit) as u32;
        let (logical, physical) = device_blocks(&file).unwrap_or((512, 4096));
        let logical = logical.clamp(512, 4096);
        let raw = Self {
            file: Arc::new(file),
            lock: None,
            size: AtomicU64::new(0),
            write: access.write,
            block_sizes: (logical, physical.max(unit).clamp(logical, 4096)),
            no_read_at_once: AtomicBool::new(direct.is_some()),
            no_write_at_once: AtomicBool::new(direct.is_some() || !access.write),
            direct,
            lost: AtomicI32::new(0),
            had_name,
        };
        raw.measure()?;
        Ok(raw)
    }

    /// Look again how large it is, after it was resized.
    pub fn measure(&self) -> io::Result<u64> {
        // SAFETY: only moves the file's unused position.
        let end = unsafe { libc::lseek(self.file.as_raw_fd(), 0, libc::SEEK_END) };
        if end < 0 {
            return Err(io::Error::last_os_error());
        }
        self.size.store(end as u64, Ordering::Relaxed);
        Ok(end as u64)
    }

    /// An error if somebody has cut the file.
    fn check_length(&self) -> io::Result<()> {
        let found = self.file.metadata()?;
        let (now, size) = (found.len(), self.size());
        if !found.is_file() || now >= size {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!("has been cut to {now} bytes while it was open; it had {size}"),
        ))
    }

    /// An error if the file is not what it was, or nobody will find it any more.
    fn check_there(&self) -> io::Result<()> {
        self.check_length()?;
        match self.had_name && self.file.metadata()?.nlink() == 0 {
            true => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "has been deleted while it was open: what is written to it is lost",
            )),
            false => Ok(()),
        }
    }

    fn check_write(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.write {
            return Err(refuse_write());
        }
        check_range(self.size(), offset, len)
    }

    fn write_zeroes_slowly(&self, offset: u64, len: u64) -> io::Result<()> {
        let zeros = vec![0u8; len.min(1 << 20) as usize];
        in_steps(offset, len, 1 << 20, |at, n| {
            self.write(&[buffer(&zeros[..n])], at)
        })
    }
}

impl Backend for Raw {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn read_only(&self) -> bool {
        !self.write
    }

    fn block_sizes(&self) -> (u32, u32) {
        self.block_sizes
    }

    /// Zeros behind the end; but not where the file had bytes when it was opened.
    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        if let Some(direct) = &self.direct {
            direct.read(&self.file, to, offset)?;
            return self.check_length();
        }
        match read_full(&self.file, to, offset)? < total(to) {
            true => self.check_length(),
            false => Ok(()),
        }
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.check_write(offset, total(from) as u64)?;
        match &self.direct {
            Some(direct) => direct.write(&self.file, from, offset, self.size()),
            None => write_full(&self.file, from, offset),
        }
    }

    /// fdatasync(2). Once it has failed it fails for good: what the host's page
    /// cache dropped does not come back.
    fn flush(&self) -> io::Result<()> {
        if !self.write {
            return Ok(());
        }
        let result = self.file.sync_data().and_then(|()| self.check_there());
        if let Err(e) = &result {
            let Some(errno) = e.raw_os_error() else {
                return result;
            };
            self.lost.store(errno, Ordering::SeqCst);
        }
        match self.lost.load(Ordering::SeqCst) {
            0 => result,
            errno => Err(io::Error::from_raw_os_error(errno)),
        }
    }

    /// Punches a hole where the host can.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check_write(offset, len)?;
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        match fallocate(&self.file, mode, offset, len) {
            Err(e) if cannot(&e) => Ok(()),
            other => other,
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.check_write(offset, len)?;
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        let hole = libc::FALLOC_FL_PUNCH_HOLE | keep;
        let zero = libc::FALLOC_FL_ZERO_RANGE | keep;
        let modes = if may_unmap {
            &[hole, zero][..]
        } else {
            &[zero]
        };
        for &mode in modes {
            match fallocate(&self.file, mode, offset, len) {
                Err(e) if cannot(&e) => {}
                other => return other,
            }
        }
        self.write_zeroes_slowly(offset, len)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        if !self.write {
            return Err(refuse_write());
        }
        if size > self.size() {
            self.file.set_len(size)?;
            self.size.fetch_max(size, Ordering::Relaxed);
        }
        Ok(())
    }

    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        if self.no_read_at_once.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let done = read_at_once(&self.file, to, offset);
        Ok(remember(done, &self.no_read_at_once))
    }

    fn try_write(&self, from: Buffers, offset: u64) -> io::Result<bool> {
        if self.no_write_at_once.load(Ordering::Relaxed) {
            return Ok(false);
        }
        self.check_write(offset, total(from) as u64)?;
        let done = write_at_once(&self.file, from, offset);
        Ok(remember(done, &self.no_write_at_once))
    }

    /// Only where nobody writes by way of this backend. Direct I/O is asked for
    /// to keep the host's page cache out of it.
    fn host_range(&self, offset: u64, len: u64) -> Option<HostRange> {
        let is_served = !self.write && self.direct.is_none();
        if !is_served || check_range(self.size(), offset, len).is_err() {
            return None;
        }
        let file = self.file.clone();
        Some(HostRange { file, offset, len })
    }
}

/// Whether the name is another file's by now.
fn is_replaced(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(found)) = (file.metadata(), path.metadata()) else {
        return false;
    };
    (own.dev(), own.ino()) != (found.dev(), found.ino())
}

fn remember(done: AtOnce, unsupported: &AtomicBool) -> bool {
    if matches!(done, AtOnce::Unsupported) {
        unsupported.store(true, Ordering::Relaxed);
    }
    matches!(done, AtOnce::Done)
}

/// The host's file system or device lacks this kind of fallocate, or lacks it
/// for a range that is no multiple of its blocks.
fn cannot(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS | libc::ENODEV)
    )
}

/// Logical and physical block size of a block device of the host: partition
/// tables count in the former. `None` for a file.
fn device_blocks(file: &File) -> Option<(u32, u32)> {
    const BLKSSZGET: libc::Ioctl = 0x1268;
    const BLKPBSZGET: libc::Ioctl = 0x127b;
    if !file.metadata().ok()?.file_type().is_block_device() {
        return None;
    }
    let ask = |request| {
        let mut size: u32 = 0;
        // SAFETY: both requests store one int.
        let failed = unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut size) };
        (failed == 0 && size.is_power_of_two()).then_some(size)
    };
    Some((ask(BLKSSZGET)?, ask(BLKPBSZGET)?))
}

//! A disk of memory, which the host allocates on first touch.

use crate::backend::{in_steps, Backend};
use crate::buffers::{slice, total, Buffers};
use crate::raw::{Access, Raw};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// After so many more bytes the host is asked again what it has.
const STEP: u64 = 64 << 20;
/// Pages are counted for as much at a time.
const COUNTED: u64 = 1 << 20;

/// An anonymous file in memory: sparse, and punched holes give memory back, as
/// does its end. It may be larger than memory: when that is used up, writes that
/// take more are refused (ENOSPC), where the host would end this process.
#[derive(Debug)]
pub struct Ram {
    raw: Raw,
    file: File,
    /// Most bytes of memory; None: whatever the host has to spare.
    most: Option<u64>,
    /// Up to here nobody needs to be asked.
    allowed: AtomicU64,
    /// Who asks, does it alone.
    asking: Mutex<()>,
}

impl Ram {
    /// `size` bytes, all zero. It takes no more memory than the host says is
    /// available, less a sixteenth of all there is.
    pub fn new(size: u64) -> io::Result<Self> {
        Self::with(size, None)
    }

    /// As [`Self::new`], and no more than `most` bytes of memory.
    pub fn limited(size: u64, most: u64) -> io::Result<Self> {
        Self::with(size, Some(most))
    }

    fn with(size: u64, most: Option<u64>) -> io::Result<Self> {
        // SAFETY: a fresh descriptor is ours alone.
        let file = unsafe {
            let fd = libc::memfd_create(c"tane-disk".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            File::from_raw_fd(fd)
        };
        file.set_len(size)?;
        let access = Access {
            write: true,
            direct: false,
        };
        Ok(Self {
            raw: Raw::from_file(file.try_clone()?, access)?,
            file,
            most,
            allowed: AtomicU64::new(0),
            asking: Mutex::default(),
        })
    }

    /// Bytes of memory that it takes now.
    pub fn resident(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    /// An error unless there is memory for what this range does not have yet.
    fn make_room(&self, offset: u64, len: u64) -> io::Result<()> {
        // At most so much is new: part pages at both ends.
        let new = len + 8192;
        if self.resident()? + new <= self.allowed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _alone = self.asking.lock().unwrap_or_else(|e| e.into_inner());
        let resident = self.resident()?;
        let spare = available().unwrap_or(u64::MAX / 2);
        let most = self.most.unwrap_or(u64::MAX / 2).min(resident + spare);
        let allowed = most.min(resident + new + STEP);
        self.allowed.store(allowed, Ordering::Relaxed);
        if resident + new <= allowed || resident + self.holes(offset, len)? <= allowed {
            return Ok(());
        }
        let text = match self.most.filter(|limit| *limit == most) {
            Some(limit) => format!("the memory for this disk, {limit} bytes, is used up"),
            None => format!("this machine has no memory left for this disk of {resident} bytes"),
        };
        Err(io::Error::new(io::ErrorKind::StorageFull, text))
    }

    /// Bytes of whole pages of this range that have no memory yet.
    fn holes(&self, offset: u64, len: u64) -> io::Result<u64> {
        let seek = |at: u64, whence| {
            // SAFETY: only moves the position, which nothing uses.
            let to = unsafe { libc::lseek(self.file.as_raw_fd(), at as i64, whence) };
            u64::try_from(to).ok()
        };
        let end = (offset + len).next_multiple_of(4096);
        let (mut at, mut holes) = (offset & !4095, 0);
        while at < end {
            // None: nothing but holes up to the end of the file.
            let data = seek(at, libc::SEEK_DATA).unwrap_or(end).min(end);
            holes += data - at;
            at = match data < end {
                true => seek(data, libc::SEEK_HOLE).unwrap_or(end),
                false => end,
            };
        }
        Ok(holes)
    }
}

/// What the host can spare, in bytes: MemAvailable, less a sixteenth of MemTotal.
fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    Some(field("MemAvailable:")?.saturating_sub(field("MemTotal:")? / 16))
}

impl Backend for Ram {
    fn size(&self) -> u64 {
        self.raw.size()
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        self.raw.read(to, offset)
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        in_steps(offset, total(from) as u64, COUNTED, |at, len| {
            self.make_room(at, len as u64)?;
            self.raw
                .write(&slice(from, (at - offset) as usize, len), at)
        })
    }

    /// Memory is as durable as it gets: the disk ends with the process.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.raw.discard(offset, len)
    }

    /// Always by a hole: it is faster, and memory that is used again comes back.
    fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> io::Result<()> {
        self.raw.write_zeroes(offset, len, true)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        self.raw.grow(size)
    }

    /// Memory never makes one wait.
    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        self.read(to, offset).map(|()| true)
    }

    fn try_write(&self, from: Buffers, offset: u64) -> io::Result<bool> {
        self.write(from, offset).map(|()| true)
    }
}

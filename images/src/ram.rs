//! A disk of memory, which the host allocates on first touch.

use crate::backend::{in_steps, Backend};
use crate::buffers::{buffer, buffer_mut, slice, total, Buffers};
use crate::raw::{Access, Raw};
use crate::undo::{Undo, UndoLog};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// After so many more bytes the host is asked again what it has.
const STEP: u64 = 64 << 20;
/// Pages are counted for as much at a time.
const COUNTED: u64 = 1 << 20;
/// What is remembered of what changes, in bytes.
const PAGE: u64 = 4096;

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
    /// What writes that are under way may yet take, at most.
    coming: AtomicU64,
    /// Who asks, does it alone.
    asking: Mutex<()>,
    /// None: nothing but zeros.
    undo: UndoLog<Option<Box<[u8]>>>,
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
            coming: AtomicU64::new(0),
            asking: Mutex::default(),
            undo: UndoLog::default(),
        })
    }

    /// Bytes of memory that it takes now.
    pub fn resident(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    /// Write a piece, if there is memory for what this range does not have yet.
    fn put(&self, from: Buffers, offset: u64, len: u64) -> io::Result<()> {
        // At most so much is new: part pages at both ends.
        let new = len + 8192;
        let before = self.coming.fetch_add(new, Ordering::SeqCst);
        let done = self
            .make_room(offset, len, new, before)
            .and_then(|()| self.keep(offset, len))
            .and_then(|()| self.raw.write(from, offset));
        self.coming.fetch_sub(new, Ordering::SeqCst);
        done
    }

    /// An error unless there is room for it beside what others are writing. Their
    /// part was read before what is resident: it is in one of the two, or in both.
    fn make_room(&self, offset: u64, len: u64, new: u64, others: u64) -> io::Result<()> {
        if self.resident()? + others + new <= self.allowed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let _alone = self.asking.lock().unwrap_or_else(|e| e.into_inner());
        let others = self.coming.load(Ordering::SeqCst).saturating_sub(new);
        let resident = self.resident()? + others;
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

    /// This range is about to change.
    fn keep(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.undo.is_active() {
            return Ok(());
        }
        for page in offset / PAGE..(offset + len).div_ceil(PAGE) {
            self.undo.keep(page, || {
                let at = page * PAGE;
                let mut bytes = vec![0; PAGE.min(self.size() - at) as usize];
                self.raw.read(&[buffer_mut(&mut bytes)], at)?;
                let is_zero = bytes.iter().all(|byte| *byte == 0);
                Ok((!is_zero).then(|| bytes.into_boxed_slice()))
            })?;
        }
        Ok(())
    }

    /// This range is about to be zeros, of which it may have any number already.
    fn keep_data(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.undo.is_active() {
            return Ok(());
        }
        let (mut at, end) = (offset, offset + len);
        while let Some(data) = self.seek(at, libc::SEEK_DATA).filter(|data| *data < end) {
            at = self.seek(data, libc::SEEK_HOLE).unwrap_or(end).min(end);
            self.keep(data, at - data)?;
        }
        Ok(())
    }

    fn seek(&self, at: u64, whence: i32) -> Option<u64> {
        // SAFETY: only moves the position, which nothing uses.
        let to = unsafe { libc::lseek(self.file.as_raw_fd(), at as i64, whence) };
        u64::try_from(to).ok()
    }

    /// Bytes of whole pages of this range that have no memory yet.
    fn holes(&self, offset: u64, len: u64) -> io::Result<u64> {
        let seek = |at, whence| self.seek(at, whence);
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
            let piece = slice(from, (at - offset) as usize, len);
            self.put(&piece, at, len as u64)
        })
    }

    /// Memory is as durable as it gets: the disk ends with the process.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.keep_data(offset, len)?;
        self.raw.discard(offset, len)
    }

    /// Always by a hole: it is faster, and memory that is used again comes back.
    fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> io::Result<()> {
        self.keep_data(offset, len)?;
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

    fn remember(self: Arc<Self>) -> io::Result<Box<dyn Undo>> {
        let id = self.undo.begin();
        Ok(Box::new(Remembered { ram: self, id }))
    }
}

struct Remembered {
    ram: Arc<Ram>,
    id: u64,
}

impl Undo for Remembered {
    fn undo(&self) -> io::Result<()> {
        let raw = &self.ram.raw;
        self.ram.undo.go_back(self.id, |page, old| match old {
            Some(bytes) => raw.write(&[buffer(&bytes)], page * PAGE),
            None => raw.write_zeroes(page * PAGE, PAGE.min(raw.size() - page * PAGE), true),
        })
    }
}

impl Drop for Remembered {
    fn drop(&mut self) {
        self.ram.undo.end(self.id);
    }
}

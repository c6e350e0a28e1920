//! What imago sees as storage, and in which order it becomes durable: see `qcow2.rs`.

use crate::backend::Backend;
use crate::buffers::{buffer, buffer_mut, gather, total, Buffers};
use crate::pages::{be32, be64};
use imago::io_buffers::{IoVector, IoVectorMut};
use imago::storage::drivers::CommonStorageHelper;
use imago::Storage;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

thread_local! {
    /// The guest's bytes that this thread is writing: addresses in memory.
    static DATA: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// As long as it lives, writes from this memory are the guest's.
pub(super) struct Data;

impl Data {
    pub fn is(bytes: &[u8]) -> Self {
        let start = bytes.as_ptr() as usize;
        DATA.set((start, start + bytes.len()));
        Self
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        DATA.set((0, 0));
    }
}

/// Whether imago writes the guest's data, or what a cluster had around it. The
/// latter is always sectors that are less than the smallest table: one cluster.
fn is_data(from: Buffers, cluster: usize) -> bool {
    let (start, end) = DATA.get();
    let around = total(from) < cluster && total(from).is_multiple_of(512);
    let guests = |b: &libc::iovec| (start..end).contains(&(b.iov_base as usize));
    end > 0 && (around || from.iter().all(guests))
}

/// A backend as imago sees one.
pub(super) struct Stored {
    pub file: Arc<dyn Backend>,
    helper: CommonStorageHelper,
    pub cluster: usize,
    /// Where the entries are that name tables of mappings (the L1 table).
    entries: Range<u64>,
    /// Those that wait, by place.
    waiting: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Something was written that no flush has covered.
    pub dirty: AtomicBool,
    barrier: Mutex<()>,
}

impl Stored {
    pub fn new(file: Arc<dyn Backend>) -> Self {
        // Of a file that is no qcow2, or none yet, nothing is metadata for long.
        let mut head = [0; 48];
        let known = file.size() >= 48 && file.read(&[buffer_mut(&mut head)], 0).is_ok();
        let known = known && head.starts_with(b"QFI\xfb");
        let entries = match known {
            true => be64(&head, 40)..be64(&head, 40).saturating_add(u64::from(be32(&head, 36)) * 8),
            false => 0..0,
        };
        Self {
            cluster: 1
                << if known {
                    be32(&head, 20).clamp(9, 21)
                } else {
                    9
                },
            entries,
            waiting: Mutex::default(),
            file,
            helper: CommonStorageHelper::default(),
            dirty: AtomicBool::new(false),
            barrier: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Make what was written so far durable. Others wait for it too.
    fn barrier(&self) -> io::Result<()> {
        let _one = self.barrier.lock().unwrap_or_else(|e| e.into_inner());
        if self.dirty.load(Ordering::SeqCst) {
            self.dirty.store(false, Ordering::SeqCst);
            self.file.flush()?;
        }
        Ok(())
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stored({} bytes)", self.file.size())
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the image's file")
    }
}

impl Storage for Stored {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.size())
    }

    /// Zeros behind the end.
    unsafe fn pure_readv(&self, mut to: IoVectorMut<'_>, offset: u64) -> io::Result<()> {
        let inside = self.file.size().saturating_sub(offset).min(to.len());
        if inside < to.len() {
            to.fill(0);
        }
        // SAFETY: the buffers live as long as `to`.
        let buffers = unsafe { to.as_iovec() };
        match inside {
            0 => Ok(()),
            n if n == to.len() => self.file.read(buffers, offset),
            n => self
                .file
                .read(&crate::buffers::slice(buffers, 0, n as usize), offset),
        }
    }

    unsafe fn pure_writev(&self, from: IoVector<'_>, offset: u64) -> io::Result<()> {
        let end = offset.checked_add(from.len());
        let end = end.ok_or(io::ErrorKind::InvalidInput)?;
        if end > self.file.size() {
            self.file.grow(end)?;
        }
        // SAFETY: the buffers live as long as `from`.
        let buffers = unsafe { from.as_iovec() };
        if !is_data(buffers, self.cluster) {
            if self.entries.start <= offset && end <= self.entries.end {
                let mut bytes = vec![0; from.len() as usize];
                // SAFETY: as above.
                unsafe { gather(buffers, &mut bytes) };
                self.waiting().insert(offset, bytes);
                return Ok(());
            }
            self.barrier()?;
        }
        let done = self.file.write(buffers, offset);
        self.dirty.store(true, Ordering::SeqCst);
        done
    }

    unsafe fn pure_write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.checked_add(length);
        self.file.grow(end.ok_or(io::ErrorKind::InvalidInput)?)?;
        self.dirty.store(true, Ordering::SeqCst);
        self.file.write_zeroes(offset, length, true)
    }

    unsafe fn pure_write_allocated_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.checked_add(length);
        self.file.grow(end.ok_or(io::ErrorKind::InvalidInput)?)?;
        self.dirty.store(true, Ordering::SeqCst);
        self.file.write_zeroes(offset, length, false)
    }

    unsafe fn pure_discard(&self, offset: u64, length: u64) -> io::Result<()> {
        let length = self.file.size().saturating_sub(offset).min(length);
        self.file.discard(offset, length)
    }

    /// There are no buffers above the file.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let waiting = std::mem::take(&mut *self.waiting());
        self.file.flush()?;
        if waiting.is_empty() {
            return Ok(());
        }
        for (offset, bytes) in &waiting {
            if let Err(e) = self.file.write(&[buffer(bytes)], *offset) {
                let mut now = self.waiting();
                for (offset, bytes) in waiting {
                    now.entry(offset).or_insert(bytes);
                }
                return Err(e);
            }
        }
        self.file.flush()
    }

    unsafe fn invalidate_cache(&self) -> io::Result<()> {
        Ok(())
    }

    fn get_storage_helper(&self) -> &CommonStorageHelper {
        &self.helper
    }

    fn resize(&self, new_size: u64, _: imago::storage::PreallocateMode) -> io::Result<()> {
        self.file.grow(new_size)
    }
}

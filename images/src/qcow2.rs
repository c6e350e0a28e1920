//! qcow2, by the imago crate. Every layer of a chain is a backend of its own:
//! imago sees the file and what is below as storage, and opens nothing itself.
//!
//! imago writes in an order that leaves the file sound if the program ends at any
//! point. That the order holds through a power cut is seen to here: whatever was
//! written is made durable before the next piece of metadata. One step imago takes
//! too early (0.2.6): it enters a new table of mappings before that table's own
//! reference count is written. Such entries wait here for the end of a flush.

mod discard;
mod zstd;

use crate::backend::{check_range, in_steps, refuse_write, Backend};
use crate::buffers::{buffer, buffer_mut, gather, scatter, total, Buffers};
use crate::pages::{be32, be64, invalid, Pages};
use imago::io_buffers::{IoVector, IoVectorMut};
use imago::qcow2::Qcow2 as Driver;
use imago::storage::drivers::CommonStorageHelper;
use imago::{
    DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder, Mapping, Storage,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

/// What the file says of itself, before it is opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub backing: Option<String>,
    pub backing_format: Option<String>,
    pub data: Option<String>,
}

/// A qcow2 image.
pub(crate) struct Qcow2 {
    /// Locked for writing only by what imago wants alone: discarding.
    access: RwLock<FormatAccess<Stored>>,
    size: u64,
    write: bool,
    /// If they are compressed by zstd.
    zstd: Option<zstd::Clusters>,
}

/// A qcow2 file that is open, and not yet put on what is below it.
pub(crate) struct Opening {
    driver: Driver<Stored>,
    write: bool,
    zstd: Option<zstd::Clusters>,
}

impl Opening {
    pub fn new(file: Arc<dyn Backend>, write: bool) -> io::Result<Self> {
        check_features(&*file)?;
        if write {
            check_counts(&file)?;
        }
        let zstd = zstd::Clusters::of(&file)?;
        let file = match &zstd {
            Some(_) if write => {
                let text = "has zstd compressed clusters, which are only read: put an overlay \
                            above it, or use zlib (qemu-img convert -O qcow2)";
                return Err(io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text));
            }
            Some(_) => Arc::new(zstd::Plain(file)),
            None => file,
        };
        let driver = Driver::open_image(Stored::new(file), write)?;
        Ok(Self {
            driver,
            write,
            zstd,
        })
    }

    pub fn names(&self) -> Names {
        let driver = &self.driver;
        Names {
            backing: driver.implicit_backing_file().cloned(),
            backing_format: driver.implicit_backing_format().cloned(),
            data: driver.implicit_external_data_file().cloned(),
        }
    }

    pub fn needs_data_file(&self) -> bool {
        self.driver.requires_external_data_file()
    }

    /// On what its names turned out to be.
    pub fn finish(
        mut self,
        backing: Option<Arc<dyn Backend>>,
        data: Option<Arc<dyn Backend>>,
    ) -> io::Result<Qcow2> {
        self.driver.set_backing(backing.map(below).transpose()?);
        self.driver.set_data_file(data.map(Stored::new));
        let access = FormatAccess::new(self.driver);
        Ok(Qcow2 {
            size: access.size(),
            access: RwLock::new(access),
            write: self.write,
            zstd: self.zstd,
        })
    }
}

fn below(backing: Arc<dyn Backend>) -> io::Result<FormatAccess<Stored>> {
    let raw =
        imago::raw::Raw::builder(Stored::new(backing)).open(DenyImplicitOpenGate::default())?;
    Ok(FormatAccess::new(raw))
}

/// Make `file`, which is empty, a qcow2 image of this size over a backing file.
pub(crate) fn create(
    file: Arc<dyn Backend>,
    size: u64,
    backing: &str,
    backing_format: &str,
) -> io::Result<()> {
    let made = Driver::<Stored>::create_builder(Stored::new(file.clone()))
        .size(size)
        .backing(backing.to_owned(), backing_format.to_owned())
        .create_open(DenyImplicitOpenGate::default(), |image| {
            Ok(Driver::builder(image).backing(None).write(true))
        })?;
    FormatAccess::new(made).flush()?;
    file.flush()
}

/// The features that change the meaning of what is in the file, told by name.
fn check_features(file: &dyn Backend) -> io::Result<()> {
    let mut head = [0; 104];
    let len = file.size().min(104) as usize;
    file.read(&[buffer_mut(&mut head[..len])], 0)?;
    let word = |at: usize| be32(&head, at);
    let refuse = |text: &str| Err(io::Error::new(io::ErrorKind::Unsupported, text));
    if word(32) != 0 {
        return refuse("is encrypted by qcow2; decrypt it with qemu-img convert");
    }
    let features = if word(4) >= 3 { word(76) } else { 0 };
    match () {
        () if features & 1 != 0 => {
            refuse("was not closed cleanly; repair it with qemu-img check -r all")
        }
        () if features & 2 != 0 => {
            refuse("is marked as damaged; repair it with qemu-img check -r all")
        }
        () if features & 16 != 0 => {
            refuse("has extended L2 entries; leave them out: qemu-img convert -O qcow2")
        }
        () => Ok(()),
    }
}

/// Look whether the tables of reference counts can be what they claim: imago
/// (0.2.6) looks for room by them without end when they make no sense.
fn check_counts(file: &Arc<dyn Backend>) -> io::Result<()> {
    let damaged = || invalid("its reference counts are damaged; try qemu-img check -r all");
    let pages = Pages::new(file.clone());
    let head = pages.get::<104>(0, true)?;
    let (version, bits) = (be32(&head, 4), be32(&head, 20));
    let order = if version >= 3 { be32(&head, 96) } else { 4 };
    if !(9..=21).contains(&bits) || order > 6 {
        return Err(damaged());
    }
    let cluster = 1u64 << bits;
    // Clusters that one block of counts is about.
    let span = (cluster * 8) >> order;
    let table = be64(&head, 48);
    let entries = u64::from(be32(&head, 56)) * cluster / 8;
    if !table.is_multiple_of(cluster) || table == 0 || entries == 0 {
        return Err(damaged());
    }
    let block = |index: u64| -> io::Result<Option<u64>> {
        if index >= entries {
            return Ok(None);
        }
        let at = u64::from_be_bytes(pages.get(table.saturating_add(index * 8), true)?);
        match at {
            0 => Ok(None),
            at if at % cluster == 0 && at < file.size() => Ok(Some(at)),
            _ => Err(damaged()),
        }
    };
    let counted = |at: u64| -> io::Result<bool> {
        let index = at / cluster;
        let Some(block) = block(index / span)? else {
            return Ok(false);
        };
        let bit = (index % span) << order;
        let bytes = pages.get::<8>(block + bit / 64 * 8, true)?;
        // Counts of less than a byte start at its lowest bits.
        let (first, len) = ((bit % 64 / 8) as usize, (1usize << order).div_ceil(8));
        let mask = match order {
            0..3 => (((1u16 << (1 << order)) - 1) << (bit % 8)) as u8,
            _ => 0xff,
        };
        Ok(bytes[first..first + len].iter().any(|b| b & mask != 0))
    };
    let spans = file.size().div_ceil(cluster).div_ceil(span);
    for index in 0..entries.min(spans) {
        match block(index)? {
            Some(at) if counted(at)? => {}
            None if index > 0 => {}
            _ => return Err(damaged()),
        }
    }
    match counted(0)? && counted(table)? && counted(be64(&head, 40))? {
        true => Ok(()),
        false => Err(damaged()),
    }
}

impl Qcow2 {
    fn access(&self) -> std::sync::RwLockReadGuard<'_, FormatAccess<Stored>> {
        self.access.read().unwrap_or_else(|e| e.into_inner())
    }

    /// Of an image that is not written, so that what is where stays.
    fn read_zstd(
        &self,
        clusters: &zstd::Clusters,
        mut to: &mut [u8],
        mut offset: u64,
    ) -> io::Result<()> {
        let access = self.access();
        while !to.is_empty() {
            let (mapping, n) = access.get_mapping(offset, to.len() as u64)?;
            let n = (n as usize).min(to.len());
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (now, rest) = to.split_at_mut(n);
            match mapping {
                Mapping::Special { offset, .. } => clusters.read(now, offset)?,
                _ => access.read(&mut *now, offset)?,
            }
            (to, offset) = (rest, offset + n as u64);
        }
        Ok(())
    }

    fn check_write(&self, offset: u64, len: u64) -> io::Result<()> {
        if !self.write {
            return Err(refuse_write());
        }
        check_range(self.size, offset, len)
    }
}

impl Backend for Qcow2 {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_only(&self) -> bool {
        !self.write
    }

    /// By way of memory of ours: imago forms slices.
    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let mut bytes = vec![0; total(to)];
        check_range(self.size, offset, bytes.len() as u64)?;
        match &self.zstd {
            None => self.access().read(&mut bytes[..], offset)?,
            Some(clusters) => self.read_zstd(clusters, &mut bytes, offset)?,
        }
        // SAFETY: guest memory, see `Buffers`.
        unsafe { scatter(&bytes, to) };
        Ok(())
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let mut bytes = vec![0; total(from)];
        self.check_write(offset, bytes.len() as u64)?;
        // SAFETY: guest memory, see `Buffers`.
        unsafe { gather(from, &mut bytes) };
        let access = self.access();
        let _data = Data::is(&bytes);
        access.write(&bytes[..], offset)
    }

    fn flush(&self) -> io::Result<()> {
        if !self.write {
            return Ok(());
        }
        let access = self.access();
        access.flush()?;
        access.sync()
    }

    /// Whole clusters read as zero afterwards, and give their room back.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.check_write(offset, len)?;
        let mut access = self.access.write().unwrap_or_else(|e| e.into_inner());
        discard::punch(&access, offset, len)?;
        match access.discard_to_any(offset, len) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => Ok(()),
            done => done,
        }
    }

    fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> io::Result<()> {
        self.check_write(offset, len)?;
        match self.access().write_zeroes(offset, len) {
            // Version 2 has no mark for zeros.
            Err(e) if e.kind() == io::ErrorKind::Unsupported => {}
            done => return done,
        }
        let zeros = vec![0; len.min(1 << 20) as usize];
        in_steps(offset, len, 1 << 20, |at, n| {
            self.access().write(&zeros[..n], at)
        })
    }
}

impl Drop for Qcow2 {
    fn drop(&mut self) {
        // What was not flushed may be lost, but the file is left consistent.
        let _ = self.flush();
    }
}

thread_local! {
    /// The guest's bytes that this thread is writing: addresses in memory.
    static DATA: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// As long as it lives, writes from this memory are the guest's.
struct Data;

impl Data {
    fn is(bytes: &[u8]) -> Self {
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
struct Stored {
    file: Arc<dyn Backend>,
    helper: CommonStorageHelper,
    cluster: usize,
    /// Where the entries are that name tables of mappings (the L1 table).
    entries: Range<u64>,
    /// Those that wait, by place.
    waiting: Mutex<BTreeMap<u64, Vec<u8>>>,
    /// Something was written that no flush has covered.
    dirty: AtomicBool,
    barrier: Mutex<()>,
}

impl Stored {
    fn new(file: Arc<dyn Backend>) -> Self {
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

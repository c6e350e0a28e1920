//! qcow2, by the imago crate. Every layer of a chain is a backend of its own:
//! imago sees the file and what is below as storage, and opens nothing itself.

use crate::backend::{check_range, in_steps, refuse_write, Backend};
use crate::buffers::{buffer_mut, gather, scatter, total, Buffers};
use imago::io_buffers::{IoVector, IoVectorMut};
use imago::qcow2::Qcow2 as Driver;
use imago::storage::drivers::CommonStorageHelper;
use imago::{
    DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder, Storage,
};
use std::fmt;
use std::io;
use std::sync::{Arc, RwLock};

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
}

/// A qcow2 file that is open, and not yet put on what is below it.
pub(crate) struct Opening(Driver<Stored>, bool);

impl Opening {
    pub fn new(file: Arc<dyn Backend>, write: bool) -> io::Result<Self> {
        check_features(&*file)?;
        Driver::open_image(Stored::new(file), write).map(|driver| Self(driver, write))
    }

    pub fn names(&self) -> Names {
        let driver = &self.0;
        Names {
            backing: driver.implicit_backing_file().cloned(),
            backing_format: driver.implicit_backing_format().cloned(),
            data: driver.implicit_external_data_file().cloned(),
        }
    }

    pub fn needs_data_file(&self) -> bool {
        self.0.requires_external_data_file()
    }

    /// On what its names turned out to be.
    pub fn finish(
        mut self,
        backing: Option<Arc<dyn Backend>>,
        data: Option<Arc<dyn Backend>>,
    ) -> io::Result<Qcow2> {
        self.0.set_backing(backing.map(below).transpose()?);
        self.0.set_data_file(data.map(Stored::new));
        let access = FormatAccess::new(self.0);
        Ok(Qcow2 {
            size: access.size(),
            access: RwLock::new(access),
            write: self.1,
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
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
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
        () if features & 8 != 0 && head[100..104].first() == Some(&1) => {
            refuse("has zstd compressed clusters; use zlib: qemu-img convert -O qcow2")
        }
        () if features & 16 != 0 => {
            refuse("has extended L2 entries; leave them out: qemu-img convert -O qcow2")
        }
        () => Ok(()),
    }
}

impl Qcow2 {
    fn access(&self) -> std::sync::RwLockReadGuard<'_, FormatAccess<Stored>> {
        self.access.read().unwrap_or_else(|e| e.into_inner())
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
        self.access().read(&mut bytes[..], offset)?;
        // SAFETY: guest memory, see `Buffers`.
        unsafe { scatter(&bytes, to) };
        Ok(())
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        let mut bytes = vec![0; total(from)];
        self.check_write(offset, bytes.len() as u64)?;
        // SAFETY: guest memory, see `Buffers`.
        unsafe { gather(from, &mut bytes) };
        self.access().write(&bytes[..], offset)
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

/// A backend as imago sees one.
struct Stored {
    file: Arc<dyn Backend>,
    helper: CommonStorageHelper,
}

impl Stored {
    fn new(file: Arc<dyn Backend>) -> Self {
        Self {
            file,
            helper: CommonStorageHelper::default(),
        }
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
        self.file.write(unsafe { from.as_iovec() }, offset)
    }

    unsafe fn pure_write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.checked_add(length);
        self.file.grow(end.ok_or(io::ErrorKind::InvalidInput)?)?;
        self.file.write_zeroes(offset, length, true)
    }

    unsafe fn pure_write_allocated_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let end = offset.checked_add(length);
        self.file.grow(end.ok_or(io::ErrorKind::InvalidInput)?)?;
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

//! qcow2, by the imago crate. Every layer of a chain is a backend of its own:
//! imago sees the file and what is below as storage, and opens nothing itself.
//!
//! imago writes in an order that leaves the file sound if the program ends at any
//! point. That the order holds through a power cut is seen to here: whatever was
//! written is made durable before the next piece of metadata. One step imago takes
//! too early (0.2.6): it enters a new table of mappings before that table's own
//! reference count is written. Such entries wait here for the end of a flush.

mod checks;
mod discard;
mod stored;
mod zstd;

use crate::backend::{check_range, in_steps, refuse_write, Backend};
use crate::buffers::{gather, scatter, total, Buffers};
use checks::{check_counts, check_features};
use imago::qcow2::Qcow2 as Driver;
use imago::{
    DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder, Mapping,
};
use std::io;
use std::sync::{Arc, RwLock};
use stored::{Data, Stored};

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

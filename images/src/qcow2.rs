//! qcow2, by the imago crate. Every layer of a chain is a backend of its own:
//! imago sees the file and what is below as storage, and opens nothing itself.
//!
//! imago writes in an order that leaves the file sound if the program ends at any
//! point. That the order holds through a power cut is seen to here: whatever was
//! written is made durable before the next piece of metadata. One step imago takes
//! too early (0.2.6): it enters a new table of mappings before that table's own
//! reference count is written. Such entries wait here for the end of a flush.
//!
//! ```text
//! checks.rs   what is looked at before imago opens a file
//! stored.rs   what imago sees as storage
//! discard.rs  holes in the file
//! reader.rs   what imago cannot read
//! ```

mod checks;
mod discard;
mod reader;
mod stored;

use crate::backend::{check_range, in_steps, refuse_write, Backend};
use crate::buffers::{buffer, gather, scatter, total, Buffers};
use crate::errors::other;
use crate::neighbours::Neighbours;
use crate::pages::{be32, read_exactly};
use crate::secrets::Secrets;
use checks::{check_counts, check_features};
use imago::format::PreallocateMode;
use imago::qcow2::Qcow2 as Driver;
use imago::{DenyImplicitOpenGate, FormatAccess, FormatCreateBuilder, FormatDriverBuilder};
use reader::Reader;
use std::io;
use std::sync::{Arc, RwLock};
use stored::{Data, Stored};

/// What the file says of itself, before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub backing: Option<String>,
    pub backing_format: Option<String>,
    pub data: Option<String>,
}

/// A qcow2 image.
struct Qcow2 {
    /// Locked for writing only by what imago wants alone: discarding.
    access: RwLock<FormatAccess<Stored>>,
    size: u64,
    write: bool,
}

/// A qcow2 file that is open, and not yet put on what is below it.
pub(crate) struct Opening(By);

/// Who reads it.
enum By {
    Imago {
        driver: Box<Driver<Stored>>,
        write: bool,
    },
    Us(Box<Reader>),
}

/// It, with the files that it names.
pub(crate) fn open(
    file: Arc<dyn Backend>,
    write: bool,
    others: &Neighbours,
) -> io::Result<Arc<dyn Backend>> {
    let opening = Opening::new(file, write && !others.looks(), others.keys())?;
    let names = opening.names();
    let data = match (&names.data, opening.needs_data_file()) {
        (Some(name), true) => Some(others.open_raw(name, write)?),
        (None, true) => return Err(other("does not name the file that has its data")),
        _ => None,
    };
    let backing = match &names.backing {
        None => None,
        Some(name) => {
            let format = names.backing_format.as_deref();
            let format = format.map(str::parse).transpose().map_err(other)?;
            Some(others.open_parent(name, format)?)
        }
    };
    opening.finish(backing, data)
}

impl Opening {
    /// `keys`: how it is decrypted; without, only its names are to be known.
    pub fn new(file: Arc<dyn Backend>, write: bool, keys: Option<&Secrets>) -> io::Result<Self> {
        check_features(&*file)?;
        if let Some(reader) = Reader::of(&file, keys.filter(|_| !write))? {
            return match write {
                false => Ok(Self(By::Us(Box::new(reader)))),
                true => Err(io::Error::new(
                    io::ErrorKind::ReadOnlyFilesystem,
                    format!(
                        "{}, and can only be read; put an overlay above it, or convert it \
                         without that (qemu-img convert -O qcow2)",
                        reader.why
                    ),
                )),
            };
        }
        if write {
            check_counts(&file)?;
        }
        let driver = Box::new(Driver::open_image(Stored::new(file), write)?);
        Ok(Self(By::Imago { driver, write }))
    }

    pub fn names(&self) -> Names {
        match &self.0 {
            By::Imago { driver, .. } => Names {
                backing: driver.implicit_backing_file().cloned(),
                backing_format: driver.implicit_backing_format().cloned(),
                data: driver.implicit_external_data_file().cloned(),
            },
            By::Us(reader) => reader.names.clone(),
        }
    }

    pub fn needs_data_file(&self) -> bool {
        match &self.0 {
            By::Imago { driver, .. } => driver.requires_external_data_file(),
            By::Us(reader) => reader.needs_data_file,
        }
    }

    /// On what its names turned out to be.
    pub fn finish(
        self,
        backing: Option<Arc<dyn Backend>>,
        data: Option<Arc<dyn Backend>>,
    ) -> io::Result<Arc<dyn Backend>> {
        let (mut driver, write) = match self.0 {
            By::Imago { driver, write } => (*driver, write),
            By::Us(reader) => return reader.finish(backing, data),
        };
        driver.set_backing(backing.map(below).transpose()?);
        driver.set_data_file(data.map(Stored::new));
        let access = FormatAccess::new(driver);
        Ok(Arc::new(Qcow2 {
            size: access.size(),
            access: RwLock::new(access),
            write,
        }))
    }
}

fn below(backing: Arc<dyn Backend>) -> io::Result<FormatAccess<Stored>> {
    let raw =
        imago::raw::Raw::builder(Stored::new(backing)).open(DenyImplicitOpenGate::default())?;
    Ok(FormatAccess::new(raw))
}

/// Make `file`, which is empty, a qcow2 image of this size, over a backing file (its name
/// and format) if one is given.
pub(crate) fn create(
    file: Arc<dyn Backend>,
    size: u64,
    backing: Option<(&str, &str)>,
) -> io::Result<()> {
    let mut builder = Driver::<Stored>::create_builder(Stored::new(file.clone())).size(size);
    if let Some((name, format)) = backing {
        builder = builder.backing(name.to_owned(), format.to_owned());
    }
    let made = builder.create_open(DenyImplicitOpenGate::default(), |image| {
        Ok(Driver::builder(image).backing(None).write(true))
    })?;
    FormatAccess::new(made).flush()?;
    sort_names(&*file)?;
    file.flush()
}

/// Make the disk in a qcow2 file that nobody has open, and that is locked, this large;
/// EINVAL if it is larger, and ENOTSUP on a backing or data file.
///
/// Nothing is seen of the new size before everything else is in the file.
pub fn grow_qcow2(file: std::fs::File, size: u64) -> io::Result<()> {
    let access = crate::Access {
        write: true,
        direct: false,
    };
    let file: Arc<dyn Backend> = Arc::new(crate::Raw::from_file(file, access)?);
    let opening = Opening::new(file.clone(), true, None)?;
    let names = opening.names();
    if names.backing.is_some() || names.data.is_some() || opening.needs_data_file() {
        let text = "is not all of its disk, which is in another file too: qemu-img resize";
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let By::Imago { driver, .. } = opening.0 else {
        return Err(refuse_write());
    };
    let disk = FormatAccess::new(*driver);
    if size < disk.size() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    disk.resize_grow(size.next_multiple_of(512), PreallocateMode::None)?;
    disk.flush()?;
    drop(disk);
    file.flush()
}

/// imago writes the table of features' names in the order of chance; equal images shall
/// have equal bytes. The file is new, and no longer than we had it made.
fn sort_names(file: &dyn Backend) -> io::Result<()> {
    const NAMES: u32 = 0x6803_f857;
    const ENTRY: usize = 48;
    const HEADER: usize = 4096;
    let header = read_exactly(file, 0, HEADER)?;
    let mut at = be32(&header, 100) as usize;
    while at + 8 <= HEADER {
        let (kind, len) = (be32(&header, at), be32(&header, at + 4) as usize);
        let Some(data) = header.get(at + 8..at + 8 + len).filter(|_| kind != 0) else {
            break;
        };
        if kind == NAMES {
            let mut names: Vec<_> = data.chunks(ENTRY).collect();
            names.sort_unstable();
            file.write(&[buffer(&names.concat())], at as u64 + 8)?;
        }
        at += 8 + len.next_multiple_of(8);
    }
    Ok(())
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

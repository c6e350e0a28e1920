//! A new image in a container. Until it is complete it is no use to anybody, so what is
//! written is made durable once, by who has the file.

use crate::backend::Backend;
use crate::buffers::Buffers;
use crate::format::Format;
use crate::qcow2::{self, Opening};
use crate::raw::{Access, Raw};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Make this file, which is empty and open for reading and writing, an image of so many
/// bytes, all zero: raw or qcow2. What is written to it is in the file once it was
/// flushed, which syncs nothing.
pub fn create(file: File, format: Format, size: u64) -> io::Result<Arc<dyn Backend>> {
    let access = Access {
        write: true,
        direct: false,
    };
    if format == Format::Raw {
        file.set_len(size)?;
    }
    let file: Arc<dyn Backend> = Arc::new(Unsynced(Raw::from_file(file, access)?));
    match format {
        Format::Raw => Ok(file),
        Format::Qcow2 => {
            qcow2::create(file.clone(), size, None)?;
            Opening::new(file, true, None)?.finish(None, None)
        }
        other => {
            let text = format!("{other} cannot be made; raw and qcow2 can");
            Err(io::Error::new(io::ErrorKind::Unsupported, text))
        }
    }
}

struct Unsynced(Raw);

impl Backend for Unsynced {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        self.0.read(to, offset)
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.0.write(from, offset)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.0.write_zeroes(offset, len, may_unmap)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        self.0.grow(size)
    }
}

//! The disk that Linux fills: a part of the file that becomes the image.
//!
//! Before the image is complete it is no use to anybody, so what Linux wants to be
//! durable on the way is not. Who makes the image does that once, in the end.

use std::fs::File;
use std::io;
use tane::images::{Access, Backend, Buffers, Raw};

pub struct NewDisk {
    raw: Raw,
    /// Where it starts in the file, and its size, in bytes.
    start: u64,
    size: u64,
}

impl NewDisk {
    /// Of a file that is open for reading and writing, and that long.
    pub fn new(file: File, start: u64, size: u64) -> io::Result<NewDisk> {
        let access = Access {
            write: true,
            direct: false,
        };
        let raw = Raw::from_file(file, access)?;
        Ok(NewDisk { raw, start, size })
    }
}

impl Backend for NewDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        self.raw.read(to, self.start + offset)
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.raw.write(from, self.start + offset)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.raw.discard(self.start + offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.raw.write_zeroes(self.start + offset, len, may_unmap)
    }
}

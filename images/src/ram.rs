//! A disk of memory, which the host allocates on first touch.

use crate::backend::Backend;
use crate::buffers::Buffers;
use crate::raw::{Access, Raw};
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;

/// An anonymous file in memory: sparse, and punched holes give memory back.
#[derive(Debug)]
pub struct Ram(Raw);

impl Ram {
    /// `size` bytes, all zero.
    pub fn new(size: u64) -> io::Result<Self> {
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
        Raw::from_file(file, access).map(Self)
    }
}

impl Backend for Ram {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        self.0.read(to, offset)
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.0.write(from, offset)
    }

    /// Memory is as durable as it gets: the disk ends with the process.
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.discard(offset, len)
    }

    /// Always by a hole: it is faster, and memory that is used again comes back.
    fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> io::Result<()> {
        self.0.write_zeroes(offset, len, true)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        self.0.grow(size)
    }

    /// Memory never makes one wait.
    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        self.0.read(to, offset).map(|()| true)
    }

    fn try_write(&self, from: Buffers, offset: u64) -> io::Result<bool> {
        self.0.write(from, offset).map(|()| true)
    }
}

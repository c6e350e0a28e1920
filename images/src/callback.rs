//! A disk whose bytes the caller provides.

use crate::backend::{check_range, in_steps, refuse_write, Backend};
use crate::buffers::{gather, scatter, slice, total, Buffers};
use std::io;

type Read = dyn Fn(&mut [u8], u64) -> io::Result<()> + Send + Sync;
type Write = dyn Fn(&[u8], u64) -> io::Result<()> + Send + Sync;
type Flush = dyn Fn() -> io::Result<()> + Send + Sync;
type Range = dyn Fn(u64, u64) -> io::Result<()> + Send + Sync;

/// Longest slice a function gets, in bytes: a guest asks for as much as it likes.
const MOST: u64 = 1 << 20;

/// The caller's functions. They may be called from several threads at once and
/// may block; they must not call the kernel whose disk they are.
pub struct Callbacks {
    /// In bytes.
    pub size: u64,
    /// Fill the slice, of at most 1 MiB, from this offset on.
    pub read: Box<Read>,
    /// Store the slice at this offset; a disk without it is read-only.
    pub write: Option<Box<Write>>,
    /// Make stored data durable. Without it, stored data counts as durable.
    pub flush: Option<Box<Flush>>,
    /// Offset and length of what may be forgotten.
    pub discard: Option<Box<Range>>,
}

/// A backend of functions. Whoever wants the guest's buffers themselves, without
/// the copy this one makes, implements [`Backend`].
pub struct Callback(Callbacks);

impl Callback {
    pub fn new(callbacks: Callbacks) -> Self {
        Self(callbacks)
    }

    fn write_with(
        &self,
        offset: u64,
        len: u64,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> io::Result<()> {
        let write = self.0.write.as_ref().ok_or_else(refuse_write)?;
        check_range(self.0.size, offset, len)?;
        let mut bytes = vec![0; len.min(MOST) as usize];
        in_steps(offset, len, MOST, |at, n| {
            fill((at - offset) as usize, &mut bytes[..n]);
            write(&bytes[..n], at)
        })
    }
}

impl Backend for Callback {
    fn size(&self) -> u64 {
        self.0.size
    }

    fn read_only(&self) -> bool {
        self.0.write.is_none()
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        let len = total(to) as u64;
        check_range(self.0.size, offset, len)?;
        // By way of a buffer: the guest may write to its memory meanwhile,
        // which a slice of it would not survive.
        let mut bytes = vec![0; len.min(MOST) as usize];
        in_steps(offset, len, MOST, |at, n| {
            (self.0.read)(&mut bytes[..n], at)?;
            // SAFETY: guest memory, see `Buffers`.
            unsafe { scatter(&bytes[..n], &slice(to, (at - offset) as usize, n)) };
            Ok(())
        })
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.write_with(offset, total(from) as u64, |start, bytes| {
            // SAFETY: guest memory, see `Buffers`.
            unsafe { gather(&slice(from, start, bytes.len()), bytes) };
        })
    }

    fn flush(&self) -> io::Result<()> {
        self.0.flush.as_ref().map_or(Ok(()), |flush| flush())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        if self.read_only() {
            return Err(refuse_write());
        }
        check_range(self.0.size, offset, len)?;
        let discard = self.0.discard.as_ref();
        discard.map_or(Ok(()), |discard| discard(offset, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64, _may_unmap: bool) -> io::Result<()> {
        self.write_with(offset, len, |_, _| ())
    }
}

//! The contract between a disk device and what stores its bytes.

use crate::undo::{Unchanged, Undo};
use crate::Buffers;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Where the host itself has some bytes of a disk.
#[derive(Clone, Debug)]
pub struct HostRange {
    /// Open for reading. Its position belongs to nobody: use pread(2) and the like.
    pub file: Arc<File>,
    /// In bytes, as `len`.
    pub offset: u64,
    pub len: u64,
}

/// Bytes that back a disk.
///
/// All offsets and lengths are in bytes. A transfer either moves everything or
/// fails: a short one is no success, and after an error any part of the range
/// may have been moved. Methods may be called from several threads at once;
/// overlapping writes at the same time have no order.
///
/// A disk has whole sectors of 512 bytes, an image may not: its last sector then
/// reads as zero behind [`Self::size`], and a write that reaches behind it is
/// refused. The block device sees to that; no call reaches behind the size.
pub trait Backend: Send + Sync {
    /// The disk's size. It may change; the device says so to its driver.
    fn size(&self) -> u64;

    /// Whether writes are refused.
    fn read_only(&self) -> bool {
        false
    }

    /// What reads and writes should be aligned to, powers of two from 512 to
    /// 4096: the smallest unit, then the one that avoids read-modify-write.
    fn block_sizes(&self) -> (u32, u32) {
        (512, 4096)
    }

    /// Fill `to` from `offset` on. May block.
    fn read(&self, to: Buffers, offset: u64) -> io::Result<()>;

    /// Write `from` at `offset`. May block. Durable only after [`Self::flush`].
    fn write(&self, from: Buffers, offset: u64) -> io::Result<()>;

    /// Make every write that has returned durable, down to the medium.
    fn flush(&self) -> io::Result<()>;

    /// The range's content does not matter any more. A hint.
    fn discard(&self, offset: u64, len: u64) -> io::Result<()>;

    /// The range reads as zero from now on; `may_unmap` allows to free it.
    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()>;

    /// Make it at least `size` bytes long; what is new reads as zero. For what
    /// stores container formats, which grow as they are written; a disk cannot.
    fn grow(&self, _size: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Like [`Self::read`] if that takes no waiting: `Ok(false)` says it would,
    /// and that nothing useful is in `to`. Called with a virtual CPU held: it
    /// must wait for nothing, not for a lock that is held across I/O either.
    fn try_read(&self, _to: Buffers, _offset: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// Like [`Self::write`] if that takes no waiting. After `Ok(false)` any part
    /// may be written already, and the caller writes all of it again.
    fn try_write(&self, _from: Buffers, _offset: u64) -> io::Result<bool> {
        Ok(false)
    }

    /// The file of the host in which these bytes lie just as a read would give
    /// them now, and stay so for as long as this backend is open. A later write
    /// to a disk that keeps writes elsewhere changes the disk, not that file.
    /// `None`: there is none, or not for the whole range, or it may change.
    fn host_range(&self, _offset: u64, _len: u64) -> Option<HostRange> {
        None
    }

    /// Remember what the disk holds, so that it can hold that again. No transfer is under
    /// way. An error says why it cannot: disks that are kept in memory can, and those that
    /// are only read.
    fn remember(self: Arc<Self>) -> io::Result<Box<dyn Undo>> {
        match self.read_only() {
            true => Ok(Box::new(Unchanged)),
            false => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "what is written to it stays, so it cannot go back: use a disk of memory, or \
                 keep what is written to this one in memory (`snapshot`), or open it for \
                 reading only",
            )),
        }
    }
}

pub(crate) fn refuse_write() -> io::Error {
    io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "the disk image is open for reading only",
    )
}

/// Within an `impl Backend` for what can only be read: the methods that are for what
/// can be written. No defaults of the trait, so that nobody who writes forgets one.
macro_rules! only_read {
    () => {
        fn read_only(&self) -> bool {
            true
        }

        fn write(&self, _: $crate::Buffers, _: u64) -> std::io::Result<()> {
            Err($crate::backend::refuse_write())
        }

        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }

        fn discard(&self, _: u64, _: u64) -> std::io::Result<()> {
            Err($crate::backend::refuse_write())
        }

        fn write_zeroes(&self, _: u64, _: u64, _: bool) -> std::io::Result<()> {
            Err($crate::backend::refuse_write())
        }
    };
}
pub(crate) use only_read;

/// An error unless the range lies inside `size` bytes.
pub(crate) fn check_range(size: u64, offset: u64, len: u64) -> io::Result<()> {
    if offset.checked_add(len).is_some_and(|end| end <= size) {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("{len} bytes at offset {offset} reach behind the disk's end at {size}"),
    ))
}

/// Call `step` for ranges of at most `most` bytes that make up the whole.
pub(crate) fn in_steps(
    offset: u64,
    len: u64,
    most: u64,
    mut step: impl FnMut(u64, usize) -> io::Result<()>,
) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let n = (len - done).min(most);
        step(offset + done, n as usize)?;
        done += n;
    }
    Ok(())
}

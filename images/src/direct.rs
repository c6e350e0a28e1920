//! Direct I/O (O_DIRECT): what it asks of a transfer, and the way round for
//! transfers that are not so.

use crate::backend::in_steps;
use crate::buffers::{gather, scatter, slice, total, Buffers};
use crate::transfer::{read_full, write_full};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::RwLock;

/// Most bytes that one bounce holds.
const MOST: u64 = 1 << 20;

/// What a file asks of its transfers, in bytes, powers of two.
#[derive(Debug)]
pub(crate) struct Direct {
    memory: usize,
    offset: u64,
    /// Held for writing across the read and the write of a block that changes
    /// only in part, for reading by any other write: neither undoes the other.
    blocks: RwLock<()>,
}

impl Direct {
    /// Ask the host (statx(2), STATX_DIOALIGN, Linux 6.1); without an answer a
    /// page is enough for every disk.
    pub fn new(file: &File) -> Self {
        let (memory, offset) = ask(file).unwrap_or((4096, 4096));
        Self {
            memory,
            offset,
            blocks: RwLock::new(()),
        }
    }

    /// The unit of offsets and lengths, in bytes.
    pub fn unit(&self) -> u64 {
        self.offset
    }

    fn suits(&self, buffers: Buffers, offset: u64) -> bool {
        offset.is_multiple_of(self.offset)
            && buffers.iter().all(|b| {
                (b.iov_base as usize).is_multiple_of(self.memory)
                    && (b.iov_len as u64).is_multiple_of(self.offset)
            })
    }

    pub fn read(&self, file: &File, to: Buffers, offset: u64) -> io::Result<()> {
        if self.suits(to, offset) {
            return read_full(file, to, offset).map(drop);
        }
        let mut start = 0;
        in_steps(offset, total(to) as u64, MOST, |at, len| {
            let bounce = Bounce::around(self, at, len)?;
            read_full(file, &[bounce.all()], bounce.start)?;
            // SAFETY: `to` is the caller's; the bounce is ours alone.
            unsafe { scatter(bounce.bytes(at, len), &slice(to, start, len)) };
            start += len;
            Ok(())
        })
    }

    /// `size` is the file's, so that it does not grow to a whole block.
    pub fn write(&self, file: &File, from: Buffers, offset: u64, size: u64) -> io::Result<()> {
        if self.suits(from, offset) {
            let _others = self.blocks.read().unwrap_or_else(|e| e.into_inner());
            return write_full(file, from, offset);
        }
        let _alone = self.blocks.write().unwrap_or_else(|e| e.into_inner());
        let mut start = 0;
        in_steps(offset, total(from) as u64, MOST, |at, len| {
            let mut bounce = Bounce::around(self, at, len)?;
            if bounce.len != len {
                read_full(file, &[bounce.all()], bounce.start)?;
            }
            // SAFETY: `from` is the caller's; the bounce is ours alone.
            unsafe { gather(&slice(from, start, len), bounce.bytes_mut(at, len)) };
            write_full(file, &[bounce.all()], bounce.start)?;
            if bounce.start + bounce.len as u64 > size && file.metadata()?.is_file() {
                file.set_len(size)?;
            }
            start += len;
            Ok(())
        })
    }
}

fn ask(file: &File) -> Option<(usize, u64)> {
    // SAFETY: the host kernel fills the structure.
    let answer = unsafe {
        let mut answer: libc::statx = std::mem::zeroed();
        let failed = libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &raw mut answer,
        );
        (failed == 0).then_some(answer)?
    };
    let known = answer.stx_mask & libc::STATX_DIOALIGN != 0;
    let (memory, offset) = (answer.stx_dio_mem_align, answer.stx_dio_offset_align);
    (known && memory.is_power_of_two() && offset.is_power_of_two())
        .then_some((memory as usize, offset.into()))
}

/// Memory that suits direct I/O, for whole blocks around a range of the file.
struct Bounce {
    /// Where in the file.
    start: u64,
    len: usize,
    memory: *mut u8,
    layout: std::alloc::Layout,
}

impl Bounce {
    fn around(direct: &Direct, offset: u64, len: usize) -> io::Result<Self> {
        let start = offset / direct.offset * direct.offset;
        let end = (offset + len as u64).next_multiple_of(direct.offset);
        let len = (end - start) as usize;
        let layout = std::alloc::Layout::from_size_align(len.max(1), direct.memory.max(1))
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: the size is not zero.
        let memory = unsafe { std::alloc::alloc_zeroed(layout) };
        if memory.is_null() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Self {
            start,
            len,
            memory,
            layout,
        })
    }

    fn all(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.memory.cast(),
            iov_len: self.len,
        }
    }

    /// The bytes that stand for `len` bytes of the file at `offset`.
    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        // SAFETY: ours, initialised, as long as `self`.
        let all = unsafe { std::slice::from_raw_parts(self.memory, self.len) };
        &all[(offset - self.start) as usize..][..len]
    }

    fn bytes_mut(&mut self, offset: u64, len: usize) -> &mut [u8] {
        // SAFETY: as above, and borrowed mutably.
        let all = unsafe { std::slice::from_raw_parts_mut(self.memory, self.len) };
        &mut all[(offset - self.start) as usize..][..len]
    }
}

impl Drop for Bounce {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { std::alloc::dealloc(self.memory, self.layout) };
    }
}

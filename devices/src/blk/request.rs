//! A block request (virtio 1.2, 5.2.6): a header, data, a status byte.

use crate::virtio::Chain;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use tane_images::{clear, gather, scatter, slice, total, Backend};

pub const SECTOR: u64 = 512;
/// Longest range of one discard or write-zeroes segment, in sectors.
pub const MAX_RANGE: u32 = 1 << 21;
/// Most segments of one discard or write-zeroes request.
pub const MAX_RANGES: u32 = 256;
const RANGE_SIZE: usize = 16;
/// Bytes of a serial number.
pub const ID_SIZE: usize = 20;

const TYPE_IN: u32 = 0;
const TYPE_OUT: u32 = 1;
const TYPE_FLUSH: u32 = 4;
const TYPE_GET_ID: u32 = 8;
const TYPE_DISCARD: u32 = 11;
const TYPE_WRITE_ZEROES: u32 = 13;
const FLAG_UNMAP: u32 = 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Flush,
    Id,
    Discard,
    WriteZeroes,
    #[default]
    Unknown,
}

/// What the status byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    Failed = 1,
    Unsupported = 2,
}

/// How a disk answers.
pub struct Disk<'a> {
    pub backend: &'a dyn Backend,
    pub read_only: bool,
    /// In bytes; see [`BlockOptions`](crate::BlockOptions).
    pub unit: u64,
    pub serial: &'a [u8; ID_SIZE],
}

impl Disk<'_> {
    /// Its size for a driver, in bytes: whole units.
    fn capacity(&self) -> u64 {
        let units = self.backend.size().div_ceil(self.unit);
        units.saturating_mul(self.unit)
    }
}

/// Why a request failed: a status, and the backend's error if it was that.
pub type Failure = (Status, Option<io::Error>);

const FAILED: Failure = (Status::Failed, None);
const UNSUPPORTED: Failure = (Status::Unsupported, None);

/// A chain that is a block request. To be used again, like its chain.
#[derive(Debug)]
pub struct Request {
    pub chain: Chain,
    pub kind: Kind,
    /// In bytes.
    offset: u64,
    status: *mut u8,
    /// Bytes of the writable buffers that were filled, the status aside.
    filled: u32,
}

// SAFETY: pointers into guest memory, see `Chain`.
unsafe impl Send for Request {}

impl Default for Request {
    fn default() -> Self {
        Self {
            chain: Chain::default(),
            kind: Kind::default(),
            offset: 0,
            status: std::ptr::null_mut(),
            filled: 0,
        }
    }
}

impl Request {
    /// Take header and status off the chain. `false`: there is no place for an
    /// answer.
    pub fn parse(&mut self) -> bool {
        let mut header = [0; 16];
        let whole = total(&self.chain.readable) >= header.len();
        // SAFETY: guest memory.
        unsafe { gather(&self.chain.readable, &mut header) };
        skip(&mut self.chain.readable, header.len());
        let Some(status) = take_last_byte(&mut self.chain.writable) else {
            return false;
        };
        let [a, b, c, d, _, _, _, _, sector @ ..] = header;
        let kind = match u32::from_le_bytes([a, b, c, d]) {
            _ if !whole => Kind::Unknown,
            TYPE_IN => Kind::Read,
            TYPE_OUT => Kind::Write,
            TYPE_FLUSH => Kind::Flush,
            TYPE_GET_ID => Kind::Id,
            TYPE_DISCARD => Kind::Discard,
            TYPE_WRITE_ZEROES => Kind::WriteZeroes,
            _ => Kind::Unknown,
        };
        self.kind = kind;
        // A sector too large to count in bytes is beyond every disk.
        self.offset = u64::from_le_bytes(sector).saturating_mul(SECTOR);
        self.status = status;
        self.filled = 0;
        true
    }

    /// How many bytes it moves.
    pub fn bytes(&self) -> usize {
        match self.kind {
            Kind::Read => total(&self.chain.writable),
            Kind::Write => total(&self.chain.readable),
            _ => 0,
        }
    }

    /// Do it if that takes no waiting.
    pub fn try_now(&mut self, disk: &Disk, through: bool) -> Option<Result<(), Failure>> {
        let (offset, len) = (self.offset, self.bytes() as u64);
        let answer = match self.kind {
            Kind::Id | Kind::Unknown => return Some(self.now(disk, through)),
            Kind::Read | Kind::Write if !in_range(disk, offset, len) => return Some(Err(FAILED)),
            Kind::Write if disk.read_only => return Some(Err(FAILED)),
            // The last sector of an image that has half of one.
            Kind::Read | Kind::Write if offset + len > disk.backend.size() => return None,
            Kind::Read => guarded(|| disk.backend.try_read(&self.chain.writable, offset)),
            Kind::Write if through => return None,
            Kind::Write => guarded(|| disk.backend.try_write(&self.chain.readable, offset)),
            Kind::Flush | Kind::Discard | Kind::WriteZeroes => return None,
        };
        // The blocking way meets the same error, and says what is wrong.
        if !answer.is_ok_and(|done| done) {
            return None;
        }
        if self.kind == Kind::Read {
            self.filled = len as u32;
        }
        Some(Ok(()))
    }

    /// Do it, waiting as long as it takes. `through`: a write is durable when it
    /// is answered.
    pub fn now(&mut self, disk: &Disk, through: bool) -> Result<(), Failure> {
        let changes = matches!(self.kind, Kind::Write | Kind::Discard | Kind::WriteZeroes);
        if changes && disk.read_only {
            return Err(FAILED);
        }
        match self.kind {
            Kind::Read => self.read(disk),
            Kind::Write => {
                let len = self.bytes() as u64;
                // Not behind the image's end, even if the last sector is there.
                if !in_range(disk, self.offset, len) || self.offset + len > disk.backend.size() {
                    return Err(FAILED);
                }
                let from = &self.chain.readable;
                run(|| disk.backend.write(from, self.offset))?;
                match through {
                    true => run(|| disk.backend.flush()),
                    false => Ok(()),
                }
            }
            Kind::Flush => run(|| disk.backend.flush()),
            Kind::Id => {
                // SAFETY: guest memory.
                unsafe { scatter(disk.serial, &self.chain.writable) };
                self.filled = total(&self.chain.writable).min(ID_SIZE) as u32;
                Ok(())
            }
            Kind::Discard | Kind::WriteZeroes => self.ranges(disk, through),
            Kind::Unknown => Err(UNSUPPORTED),
        }
    }

    fn read(&mut self, disk: &Disk) -> Result<(), Failure> {
        let to = &self.chain.writable;
        let len = total(to);
        if !in_range(disk, self.offset, len as u64) {
            return Err(FAILED);
        }
        // The last unit of an image that has half of one ends in zeros.
        let there = disk.backend.size().saturating_sub(self.offset);
        if there >= len as u64 {
            run(|| disk.backend.read(to, self.offset))?;
        } else {
            let there = there as usize;
            if there > 0 {
                run(|| disk.backend.read(&slice(to, 0, there), self.offset))?;
            }
            // SAFETY: guest memory.
            unsafe { clear(&slice(to, there, len - there)) };
        }
        self.filled = len as u32;
        Ok(())
    }

    /// The segments of a discard or write-zeroes request: all are looked at
    /// before the first is done.
    fn ranges(&self, disk: &Disk, through: bool) -> Result<(), Failure> {
        let mut bytes = [0; RANGE_SIZE * MAX_RANGES as usize];
        let len = total(&self.chain.readable);
        if len == 0 || !len.is_multiple_of(RANGE_SIZE) || len > bytes.len() {
            return Err(FAILED);
        }
        // SAFETY: guest memory. Copied once: what is checked is what is done.
        unsafe { gather(&self.chain.readable, &mut bytes) };
        let ranges = || bytes[..len].chunks_exact(RANGE_SIZE).map(Range::parse);
        let discard = self.kind == Kind::Discard;
        for range in ranges() {
            // 5.2.6.2: flags that mean nothing, and unmap where it is implied.
            if range.flags & !FLAG_UNMAP != 0 || discard && range.flags != 0 {
                return Err(UNSUPPORTED);
            }
            let most = u64::from(MAX_RANGE) * SECTOR;
            if range.len > most || !in_range(disk, range.offset, range.len) {
                return Err(FAILED);
            }
        }
        for Range { offset, len, flags } in ranges() {
            // Behind the image's end everything is zero already.
            let len = len.min(disk.backend.size().saturating_sub(offset));
            if len == 0 {
                continue;
            }
            let unmap = flags & FLAG_UNMAP != 0;
            match discard {
                true => run(|| disk.backend.discard(offset, len))?,
                false => run(|| disk.backend.write_zeroes(offset, len, unmap))?,
            }
        }
        match through {
            true => run(|| disk.backend.flush()),
            false => Ok(()),
        }
    }

    /// Write the status; returns how many bytes of the chain were filled. Data of
    /// a read that failed is not counted, although some may be there.
    pub fn answer(&self, status: Status) -> u32 {
        // SAFETY: guest memory, checked when the chain was collected.
        unsafe { self.status.write_volatile(status as u8) };
        let filled = if status == Status::Ok { self.filled } else { 0 };
        filled.saturating_add(1)
    }
}

/// `struct virtio_blk_discard_write_zeroes`, in bytes.
struct Range {
    offset: u64,
    len: u64,
    flags: u32,
}

impl Range {
    fn parse(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let bytes = bytes[at..at + 4].iter();
            bytes
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        };
        Self {
            offset: (word(0) | word(4) << 32).saturating_mul(SECTOR),
            len: word(8) * SECTOR,
            flags: word(12) as u32,
        }
    }
}

/// Whether whole sectors of the disk were asked for.
fn in_range(disk: &Disk, offset: u64, len: u64) -> bool {
    let end = offset.checked_add(len);
    len.is_multiple_of(SECTOR) && end.is_some_and(|end| end <= disk.capacity())
}

fn run(work: impl FnOnce() -> io::Result<()>) -> Result<(), Failure> {
    guarded(work).map_err(|error| (Status::Failed, Some(error)))
}

/// A backend is the program's code: if it panics, its request has failed, and
/// neither the kernel nor the thread is lost.
fn guarded<T>(work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(io::Error::other("the disk's backend panicked")))
}

/// Remove the first `count` bytes.
fn skip(buffers: &mut Vec<libc::iovec>, mut count: usize) {
    buffers.retain_mut(|buffer| {
        let cut = count.min(buffer.iov_len);
        count -= cut;
        buffer.iov_base = buffer.iov_base.cast::<u8>().wrapping_add(cut).cast();
        buffer.iov_len -= cut;
        buffer.iov_len > 0
    });
}

/// Remove the last byte and return where it is.
fn take_last_byte(buffers: &mut Vec<libc::iovec>) -> Option<*mut u8> {
    buffers.retain(|buffer| buffer.iov_len > 0);
    let last = buffers.last_mut()?;
    last.iov_len -= 1;
    let byte = last.iov_base.cast::<u8>().wrapping_add(last.iov_len);
    if last.iov_len == 0 {
        buffers.pop();
    }
    Some(byte)
}

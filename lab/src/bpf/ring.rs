//! What programs have sent by a ring buffer (Linux, Documentation/bpf/ringbuf.rst).
//!
//! ```text
//! page 0   how far it was read; written by who reads
//! page 1   how far it was written
//! page 2…  records, then the same pages once more, so that none is in two pieces
//! ```

use super::calls::{Fd, Mapping};
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const PAGE: usize = 4096;
/// Of a record's first word: it is still being written; nobody is to read it.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Length, and where in the ring it is.
const HEADER: u64 = 8;

/// All records that are complete, which are then forgotten. `size`: the ring's, in bytes.
pub(super) fn drain(ring: &Fd, size: usize) -> Result<Vec<Vec<u8>>> {
    let broken = || Error::new(ErrorKind::InvalidData, "a ring buffer's records");
    let read = Mapping::new(ring, 0, PAGE, true)?;
    let written = Mapping::new(ring, PAGE, PAGE + 2 * size, false)?;
    // SAFETY: the mappings are as long as that, aligned, and both are written atomically.
    let (read_to, written_to) = unsafe {
        (
            AtomicU64::from_ptr(read.start().cast()),
            AtomicU64::from_ptr(written.start().cast()),
        )
    };
    let mut records = Vec::new();
    let mut at = read_to.load(Ordering::Relaxed);
    while at < written_to.load(Ordering::Acquire) {
        let place = written.start().wrapping_add(PAGE + at as usize % size);
        // SAFETY: records begin at multiples of 8, and in the first of the two copies.
        let head = unsafe { AtomicU32::from_ptr(place.cast()) }.load(Ordering::Acquire);
        if head & BUSY != 0 {
            break;
        }
        let len = (head & !DISCARDED) as usize;
        if len > size {
            return Err(broken());
        }
        if head & DISCARDED == 0 {
            let mut record = vec![0; len];
            let from = place.wrapping_add(HEADER as usize);
            // SAFETY: within the two copies, and nobody writes it before it was read.
            unsafe { std::ptr::copy_nonoverlapping(from, record.as_mut_ptr(), len) };
            records.push(record);
        }
        at += (HEADER + len as u64).next_multiple_of(8);
        read_to.store(at, Ordering::Release);
    }
    Ok(records)
}

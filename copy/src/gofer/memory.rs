//! Memory that the two processes share: the data of batches, and a word that says stop.

use super::super::batch::{BATCHES, ROOM};
use super::super::room::Shared;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// In front of the data, in bytes.
const WORDS: usize = 4096;
const SIZE: usize = WORDS + BATCHES * ROOM;

/// Mapped until the process ends, and inherited by its child. Not by a descriptor:
/// nobody can cut it short.
pub struct Memory(*mut u8);

// SAFETY: an address; each slot is written by who has it at the time.
unsafe impl Send for Memory {}
// SAFETY: as above; the word is atomic.
unsafe impl Sync for Memory {}

impl Memory {
    /// Takes host memory as far as it is used.
    pub fn new() -> io::Result<Memory> {
        let (rights, how) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: new memory, wherever the host puts it.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, rights, how, -1, 0) };
        match at {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            at => Ok(Memory(at.cast())),
        }
    }

    /// From now on this process only reads it.
    pub fn only_read(&self) -> io::Result<()> {
        // SAFETY: all of our own mapping, to which no reference is held.
        match unsafe { libc::mprotect(self.0.cast(), SIZE, libc::PROT_READ) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: aligned, mapped for good, and used by nothing else.
        unsafe { AtomicU32::from_ptr(self.0.cast()) }
    }

    /// Has the writer stop before the next file, or go on again.
    pub fn set_stop(&self, stop: bool) {
        self.word().store(stop.into(), Relaxed);
    }

    /// Whether it is to stop.
    pub fn is_stopped(&self) -> bool {
        self.word().load(Relaxed) != 0
    }

    /// The data of a batch, by the number of its slot, below [`BATCHES`].
    pub fn slot(&self, number: usize) -> Shared {
        assert!(number < BATCHES);
        Shared {
            // SAFETY: within the mapping, by its size.
            at: unsafe { self.0.add(WORDS + number * ROOM) },
            len: ROOM,
        }
    }
}

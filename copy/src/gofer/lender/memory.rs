//! Memory that the two processes share: data, which the lender alone writes, and words, by
//! which the writer says that it wants no more.

use super::super::super::batch::{BATCHES, ROOM};
use super::super::super::room::Shared;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const SIZE: usize = BATCHES * ROOM;

/// Mapped until the process ends.
struct Words {
    /// The copy is to end after the file at hand.
    stop: AtomicU32,
    /// What is still to come is only named.
    stopped: AtomicU32,
    /// Nobody writes any more.
    over: AtomicU32,
    /// The number of the file that is of no use.
    given_up: AtomicU64,
}

/// Before there are two processes.
pub struct Loan {
    file: File,
    data: *mut u8,
    words: &'static Words,
}

/// The lender's part, or the writer's, which cannot change the data.
pub struct Lent {
    data: *mut u8,
    words: &'static Words,
}

// SAFETY: an address; each slot is written by the lender, while it has it.
unsafe impl Send for Loan {}
// SAFETY: as above.
unsafe impl Send for Lent {}
// SAFETY: as above; the words are atomic.
unsafe impl Sync for Lent {}

fn map(size: usize, rights: i32, file: Option<&File>) -> io::Result<*mut u8> {
    let (how, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: new memory, wherever the host puts it.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), size, rights, how, fd, 0) };
    match at {
        libc::MAP_FAILED => Err(io::Error::last_os_error()),
        at => Ok(at.cast()),
    }
}

fn checked(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(number),
    }
}

impl Loan {
    /// Takes host memory as far as it is used.
    pub fn new() -> io::Result<Loan> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a text; a descriptor that is just made is nobody else's.
        let file = unsafe {
            let fd = checked(libc::memfd_create(c"tane-lent".as_ptr(), flags))?;
            File::from_raw_fd(fd)
        };
        file.set_len(SIZE as u64)?;
        let size = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
        // SAFETY: numbers only.
        checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, size) })?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let words = map(size_of::<Words>(), rights, None)?;
        Ok(Loan {
            data: map(SIZE, rights, Some(&file))?,
            file,
            // SAFETY: of zeroes, which are such words; aligned to a page, and mapped for good.
            words: unsafe { &*words.cast::<Words>() },
        })
    }

    /// In the lender.
    pub fn lend(self) -> Lent {
        Lent {
            data: self.data,
            words: self.words,
        }
    }

    /// In the other process, which from then on has no way to write the data: not by this
    /// mapping, and by no other of the file (Linux 5.1 and newer).
    pub fn borrow(self) -> io::Result<Lent> {
        // SAFETY: all of our own mapping, to which no reference is held.
        checked(unsafe { libc::munmap(self.data.cast(), SIZE) })?;
        let fd = self.file.as_raw_fd();
        // Older hosts lack it: then it stays a mapping that is only read.
        // SAFETY: numbers only.
        let _ = unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_FUTURE_WRITE) };
        Ok(Lent {
            data: map(SIZE, libc::PROT_READ, Some(&self.file))?,
            words: self.words,
        })
    }
}

#[cfg(test)]
impl Loan {
    /// What two processes would have.
    pub fn both(self) -> (Lent, Lent) {
        let fd = self.file.as_raw_fd();
        // SAFETY: numbers only.
        let sealed = unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_FUTURE_WRITE) };
        assert_eq!(sealed, 0);
        let data = map(SIZE, libc::PROT_READ, Some(&self.file)).expect("memory");
        let words = self.words;
        (self.lend(), Lent { data, words })
    }
}

#[cfg(test)]
impl Lent {
    /// The data of a batch, once nobody writes it.
    pub fn borrowed(&self, slot: usize) -> &[u8] {
        let shared = self.slot(slot);
        // SAFETY: mapped for good.
        unsafe { std::slice::from_raw_parts(shared.at, shared.len) }
    }

    /// Sets them all, by bits.
    pub fn words_are(&self, bits: u32) {
        self.set_stop(bits & 1 != 0);
        self.set_stopped(bits & 2 != 0);
        self.words.over.store(bits & 4, Relaxed);
        self.words.given_up.store((bits >> 3).into(), Relaxed);
    }
}

impl Lent {
    /// The data of a batch, by the number of its slot, below [`BATCHES`].
    pub fn slot(&self, number: usize) -> Shared {
        assert!(number < BATCHES);
        Shared {
            // SAFETY: within the mapping, by its size.
            at: unsafe { self.data.add(number * ROOM) },
            len: ROOM,
        }
    }

    /// A copy begins.
    pub fn begin(&self) {
        self.set_stop(false);
        self.set_stopped(false);
        self.words.over.store(0, Relaxed);
        self.words.given_up.store(0, Relaxed);
    }

    /// Has the lender end the copy after the file at hand, or go on again.
    pub fn set_stop(&self, stop: bool) {
        self.words.stop.store(stop.into(), Relaxed);
    }

    /// Whether it is to.
    pub fn is_stop(&self) -> bool {
        self.words.stop.load(Relaxed) != 0
    }

    /// Says that nothing more is written, and what is still to come is only named.
    pub fn set_stopped(&self, stopped: bool) {
        self.words.stopped.store(stopped.into(), Relaxed);
    }

    /// Whether that is so.
    pub fn has_stopped(&self) -> bool {
        self.words.stopped.load(Relaxed) != 0
    }

    /// Says that nobody writes any more.
    pub fn set_over(&self) {
        self.words.over.store(1, Relaxed);
    }

    /// Whether that is so.
    pub fn is_over(&self) -> bool {
        self.words.over.load(Relaxed) != 0
    }

    /// Says that the rest of this file is of no use: see [`Observer`](crate::Observer).
    pub fn give_up(&self, number: NonZeroU64) {
        self.words.given_up.store(number.get(), Relaxed);
    }

    /// Whether that was said of it.
    pub fn has_given_up(&self, number: NonZeroU64) -> bool {
        self.words.given_up.load(Relaxed) == number.get()
    }
}

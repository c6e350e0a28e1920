//! The memory that a caller and its worker share: a head, and slots, each for one
//! call under way.
//!
//! ```text
//! Head                    what it is, for the other side to check
//! Control × SLOTS         whose turn it is; number, lengths, result
//! (request, answer) × SLOTS
//! ```
//!
//! It is a sealed memfd: its size cannot change, so that nobody gets SIGBUS from it.
//! Both sides can write all of it at any time. The worker trusts the caller. The
//! caller copies what it is told before it looks at it.

use crate::failure::{Failure, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Of what both sides say to each other. Whoever changes an operation, a structure of it or
/// the area raises it: both sides come from one build.
const VERSION: u32 = 7;
/// Calls that can be under way at once.
pub const SLOTS: usize = 4;
/// The most data of one message: small enough to stay in the processor's cache.
pub const BULK: usize = 1 << 20;
/// What comes beside the data, at most.
pub const BESIDE: usize = 64 << 10;
const ROOM: usize = BULK + BESIDE;
const HEAD: usize = 4096;
const SIZE: usize = HEAD + SLOTS * 2 * ROOM;
const MAGIC: u64 = u64::from_le_bytes(*b"tanework");

#[repr(C)]
struct Head {
    magic: AtomicU64,
    version: AtomicU32,
}

/// Of [`Control::state`], which is 0 at first.
pub const ASKED: u32 = 1;
pub const ANSWERED: u32 = 2;

/// One call.
#[repr(C, align(64))]
pub struct Control {
    /// ASKED, ANSWERED; a futex.
    pub state: AtomicU32,
    /// Not 0: that side sleeps, and must be woken.
    pub worker_sleeps: AtomicU32,
    pub caller_sleeps: AtomicU32,
    pub operation: AtomicU32,
    pub handle: AtomicU32,
    pub request: AtomicU32,
    /// A positive errno, the answer then being its text; or 0.
    pub errno: AtomicU32,
    pub answer: AtomicU32,
    /// Of what moves data: how much.
    pub result: AtomicI64,
}

pub struct Area {
    base: NonNull<u8>,
    fd: OwnedFd,
}

// SAFETY: plain memory; who touches which part of it when is the slots' business.
unsafe impl Send for Area {}
unsafe impl Sync for Area {}

fn failed(action: &str) -> Failure {
    Failure::of_io(&std::io::Error::last_os_error(), action)
}

impl Area {
    /// A new one, of zeroes.
    pub fn new() -> Result<Area> {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: a name, and a descriptor that is ours.
        let fd = unsafe {
            let fd = libc::memfd_create(c"tane-worker".as_ptr(), flags);
            if fd < 0 {
                return Err(failed("make the shared memory"));
            }
            OwnedFd::from_raw_fd(fd)
        };
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: our own descriptor.
        let sealed = unsafe {
            libc::ftruncate(fd.as_raw_fd(), SIZE as i64) == 0
                && libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) == 0
        };
        if !sealed {
            return Err(failed("size the shared memory"));
        }
        let area = Area::map(fd)?;
        area.head().magic.store(MAGIC, Relaxed);
        area.head().version.store(VERSION, Relaxed);
        Ok(area)
    }

    /// The one that the caller made; None if that was another version.
    pub fn of_caller(fd: OwnedFd) -> Result<Option<Area>> {
        let area = Area::map(fd)?;
        let head = area.head();
        let same = head.magic.load(Relaxed) == MAGIC && head.version.load(Relaxed) == VERSION;
        Ok(same.then_some(area))
    }

    fn map(fd: OwnedFd) -> Result<Area> {
        // SAFETY: fresh memory of a descriptor that stays open as long; whoever else
        // has it cannot make it smaller.
        let base = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let (none, fd) = (std::ptr::null_mut(), fd.as_raw_fd());
            libc::mmap(none, SIZE, protection, libc::MAP_SHARED, fd, 0)
        };
        match NonNull::new(base.cast::<u8>()) {
            Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(Area { base, fd }),
            _ => Err(failed("map the shared memory")),
        }
    }

    fn head(&self) -> &Head {
        // SAFETY: the start of it; any bytes are a Head.
        unsafe { self.base.cast().as_ref() }
    }

    pub fn control(&self, slot: usize) -> &Control {
        assert!(slot < SLOTS);
        // SAFETY: within the first page, behind the Head; any bytes are a Control.
        unsafe {
            self.base
                .byte_add(64 + slot * size_of::<Control>())
                .cast()
                .as_ref()
        }
    }

    /// Where the request of a slot lies.
    pub fn request(&self, slot: usize) -> Room {
        self.room(2 * slot)
    }

    /// Where its answer lies.
    pub fn answer(&self, slot: usize) -> Room {
        self.room(2 * slot + 1)
    }

    fn room(&self, at: usize) -> Room {
        assert!(at < 2 * SLOTS);
        // SAFETY: within the area.
        Room(unsafe { self.base.byte_add(HEAD + at * ROOM) })
    }
}

const _: () = assert!(64 + SLOTS * size_of::<Control>() <= HEAD);

impl AsFd for Area {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody uses any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), SIZE) };
    }
}

/// A part of it, of ROOM bytes.
#[derive(Clone, Copy)]
pub struct Room(NonNull<u8>);

impl Room {
    /// All of it, to be written.
    ///
    /// # Safety
    /// It is this side's turn, nobody else of this process uses it, and the other
    /// side is trusted to leave it alone, or nothing is read from it.
    pub unsafe fn to_write<'a>(self) -> &'a mut [u8] {
        // SAFETY: the caller's word.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), ROOM) }
    }

    /// Its start.
    ///
    /// # Safety
    /// The other side leaves it alone: for the worker, whose caller does.
    pub unsafe fn trusted<'a>(self, len: usize) -> &'a [u8] {
        // SAFETY: the caller's word.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), len.min(ROOM)) }
    }

    /// Copy a part of it that the other side may be changing: what is copied is
    /// whatever was there. False, and nothing is copied, if there is no such part.
    #[must_use]
    pub fn copy_to(self, from: usize, to: &mut [u8]) -> bool {
        let fits = from.checked_add(to.len()).is_some_and(|end| end <= ROOM);
        if fits {
            // SAFETY: within the room; no reference to it exists in this process, and
            // bytes that change under the copy are bytes.
            unsafe {
                let from = self.0.as_ptr().add(from);
                libc::memcpy(to.as_mut_ptr().cast(), from.cast(), to.len());
            }
        }
        fits
    }

    /// Copy into it.
    #[must_use]
    pub fn copy_from(self, at: usize, from: &[u8]) -> bool {
        let fits = at.checked_add(from.len()).is_some_and(|end| end <= ROOM);
        if fits {
            // SAFETY: within the room.
            unsafe {
                let to = self.0.as_ptr().add(at);
                libc::memcpy(to.cast(), from.as_ptr().cast(), from.len());
            }
        }
        fits
    }
}

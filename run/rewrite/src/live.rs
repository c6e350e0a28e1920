//! A patch under threads that run the code.
//!
//! If it lies within eight aligned bytes, one store writes it: processors fetch these as
//! they were before or as they are afterwards. Otherwise it is written as Linux patches
//! its own code, by stores of one byte, with a trap where anybody could see half of it:
//!
//! 1. a trap behind the `syscall`, where calls that are under way come back (not if it is
//!    the instruction before that becomes the jump: the `syscall` stays then),
//! 2. a trap in place of the first byte,
//! 3. what nobody can reach any more,
//! 4. the jump's first byte.
//!
//! After each, membarrier(2) has every thread of the process fetch anew. Whoever meets
//! one of the traps goes on in the trampoline ([`crate::resume`]), also for ever, should
//! the thread that writes not come to the end. No thread can be at another place within
//! the five bytes: no instruction begins there.

use crate::plan::{Patch, When};
use crate::site::JUMP;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};

/// int3
const TRAP: u8 = 0xcc;

/// What became of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is there.
    Written,
    /// Another thread has written it, or is about to.
    Already,
    /// The bytes are neither the old nor the new ones: this is not the code that was
    /// analysed. Nothing was changed.
    Changed,
    /// It is one that needs no proof: threads may be within it.
    Never,
}

/// A store of one byte: how far behind the patch's beginning, and what.
pub type Store = (usize, u8);

/// The stores of a patch, group by group; every thread fetches anew after each group.
pub fn steps(patch: &Patch) -> Vec<Vec<Store>> {
    let byte = |at: usize| (at, patch.new[at]);
    match patch.at == patch.site {
        true => vec![
            vec![byte(2)],
            vec![(0, TRAP)],
            vec![byte(1), byte(3), byte(4)],
            vec![byte(0)],
        ],
        false => vec![
            vec![(0, TRAP)],
            vec![byte(1), byte(2), byte(3), byte(4)],
            vec![byte(0)],
        ],
    }
}

/// Writes a patch whose site a trap has proven. `sync` is [`sync_core`], or does the
/// same. Several threads may try at once: one of them writes.
///
/// # Safety
///
/// `text` is a writable view of the segment that others run. Its address is a multiple
/// of eight, as the segment's is. Nothing but this function writes around the patch.
pub unsafe fn write<E>(
    text: *mut u8,
    patch: &Patch,
    mut sync: impl FnMut() -> Result<(), E>,
) -> Result<Outcome, E> {
    if patch.when != When::Proof {
        return Ok(Outcome::Never);
    }
    // SAFETY: as the caller promises.
    let outcome = unsafe {
        match patch.at % 8 {
            0..=3 => by_word(text, patch),
            _ => return by_bytes(text, patch, sync),
        }
    };
    if outcome == Outcome::Written {
        sync()?;
    }
    Ok(outcome)
}

/// # Safety
///
/// As [`write`].
unsafe fn by_word(text: *mut u8, patch: &Patch) -> Outcome {
    let (at, first) = (patch.at as usize, patch.at as usize % 8);
    // SAFETY: as the caller promises; it is aligned.
    let word = unsafe { AtomicU64::from_ptr(text.add(at - first).cast()) };
    let mut old = word.load(Ordering::Relaxed);
    loop {
        let mut bytes = old.to_le_bytes();
        let place = &mut bytes[first..first + JUMP];
        if place == patch.new {
            return Outcome::Already;
        }
        if place != patch.old {
            return Outcome::Changed;
        }
        place.copy_from_slice(&patch.new);
        let new = u64::from_le_bytes(bytes);
        match word.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return Outcome::Written,
            Err(now) => old = now,
        }
    }
}

/// # Safety
///
/// As [`write`].
unsafe fn by_bytes<E>(
    text: *mut u8,
    patch: &Patch,
    mut sync: impl FnMut() -> Result<(), E>,
) -> Result<Outcome, E> {
    // SAFETY: as the caller promises.
    let byte = |at: usize| unsafe { AtomicU8::from_ptr(text.add(patch.at as usize + at)) };
    let same = |at: usize| byte(at).load(Ordering::Relaxed) == patch.old[at];
    let steps = steps(patch);
    let (first, trap) = steps[0][0];
    let now = byte(first).load(Ordering::Relaxed);
    if now == trap || now == patch.new[first] {
        return Ok(Outcome::Already);
    }
    if !(0..JUMP).all(same) {
        return Ok(Outcome::Changed);
    }
    // The first store of all says who writes.
    let claim = byte(first).compare_exchange(now, trap, Ordering::Relaxed, Ordering::Relaxed);
    if claim.is_err() {
        return Ok(Outcome::Already);
    }
    for group in steps {
        for (at, value) in group {
            byte(at).store(value, Ordering::Release);
        }
        sync()?;
    }
    Ok(Outcome::Written)
}

const REGISTER_SYNC_CORE: i32 = 1 << 6;
const SYNC_CORE: i32 = 1 << 5;

fn membarrier(command: i32) -> std::io::Result<()> {
    // SAFETY: no memory.
    match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Says that [`sync_core`] will be called in this process. Forked ones inherit it.
pub fn register_sync_core() -> std::io::Result<()> {
    membarrier(REGISTER_SYNC_CORE)
}

/// Has every thread of the process fetch its instructions anew.
pub fn sync_core() -> std::io::Result<()> {
    membarrier(SYNC_CORE)
}

//! Frames that the kernel has had shown at a second place, or given back, since a
//! checkpoint: what is written there, nobody notices at their place in RAM.

use crate::memory::PAGE;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Default)]
struct Known {
    /// Bit by bit; empty: nobody wants to know.
    bits: Vec<u64>,
    /// Anything was shown, to be read or written.
    any: bool,
    /// How often code was changed.
    code: u64,
}

#[derive(Default)]
pub struct Frames(Mutex<Known>);

impl Frames {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remember them from now on, of RAM of so many bytes.
    pub fn remember(&self, ram: u64) {
        let mut known = self.lock();
        known.bits = vec![0; (ram / PAGE).div_ceil(64) as usize];
        known.any = false;
    }

    /// This part of RAM is shown at a second place, or changes without being written.
    pub fn note(&self, pa: u64, len: u64, written: bool) {
        let mut known = self.lock();
        if known.bits.is_empty() {
            return;
        }
        known.any = true;
        let pages = pa / PAGE..(pa + len).div_ceil(PAGE);
        for page in pages.filter(|_| written) {
            if let Some(word) = known.bits.get_mut(page as usize / 64) {
                *word |= 1 << (page % 64);
            }
        }
    }

    pub fn code_changes(&self) {
        self.lock().code += 1;
    }

    /// How often it has.
    pub fn code(&self) -> u64 {
        self.lock().code
    }

    pub fn any(&self) -> bool {
        self.lock().any
    }

    /// Those that may have been written, as ranges of RAM.
    pub fn each(&self, mut found: impl FnMut(Range<u64>)) {
        let known = self.lock();
        for (number, word) in known.bits.iter().enumerate().filter(|(_, w)| **w != 0) {
            for bit in (0..64).filter(|bit| word >> bit & 1 != 0) {
                let at = (number as u64 * 64 + bit) * PAGE;
                found(at..at + PAGE);
            }
        }
    }

    /// Nothing is shown any more.
    pub fn forget(&self) {
        let mut known = self.lock();
        known.bits.fill(0);
        known.any = false;
    }
}

//! Where trampolines lie in their region.
//!
//! A jump that takes the place of `syscall` and what follows has its third byte where
//! the following instruction began. That byte is to be 0xCC, so that whoever jumps there
//! traps. It is the second byte of the distance, hence only 256 of each 64 KiB will do.

/// A trampoline begins at a multiple of this.
const GRAIN: usize = 8;
/// int3
const TRAP: u8 = 0xcc;

/// The region, while trampolines are laid out.
pub struct Room {
    used: Vec<bool>,
    /// All grains before are used.
    full: usize,
    most: usize,
}

impl Room {
    /// A region of at most this many bytes.
    pub fn new(most: usize) -> Room {
        Room {
            used: Vec::new(),
            full: 0,
            most: most / GRAIN,
        }
    }

    /// A place of `length` bytes, anywhere.
    pub fn anywhere(&mut self, length: usize) -> Option<usize> {
        while self.used.get(self.full) == Some(&true) {
            self.full += 1;
        }
        let place = (self.full..self.most).find(|grain| self.is_free(*grain, length))?;
        self.take(place, length)
    }

    /// A place of `length` bytes with 0xCC as the second byte of its distance from
    /// `from`, which counts from the region's first byte.
    pub fn behind_a_trap(&mut self, from: i64, length: usize) -> Option<usize> {
        let second = i64::from(TRAP) << 8;
        let mut window = (from + second).rem_euclid(1 << 16) as usize;
        // It may have begun before the region.
        if window > 0xff00 {
            if let Some(place) = self.within(0..window - 0xff00, length) {
                return self.take(place, length);
            }
        }
        while window < self.most * GRAIN {
            if let Some(place) = self.within(window..window + 256, length) {
                return self.take(place, length);
            }
            window += 1 << 16;
        }
        None
    }

    fn within(&self, bytes: std::ops::Range<usize>, length: usize) -> Option<usize> {
        let grains = bytes.start.div_ceil(GRAIN)..bytes.end.div_ceil(GRAIN);
        grains
            .into_iter()
            .find(|grain| self.is_free(*grain, length))
    }

    fn is_free(&self, grain: usize, length: usize) -> bool {
        let end = grain + length.div_ceil(GRAIN);
        end <= self.most && !(grain..end).any(|at| self.used.get(at) == Some(&true))
    }

    fn take(&mut self, grain: usize, length: usize) -> Option<usize> {
        let end = grain + length.div_ceil(GRAIN);
        if self.used.len() < end {
            self.used.resize(end, false);
        }
        self.used[grain..end].fill(true);
        Some(grain * GRAIN)
    }
}

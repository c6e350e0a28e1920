//! Numbers that nobody chose, and that are the same each time.

/// A generator of numbers (xorshift64). The seed is not 0.
pub struct Dice(pub u64);

impl Dice {
    /// 0 to `below - 1`.
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

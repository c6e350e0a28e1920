//! What is read beyond what was asked for: a message costs more than the bytes. Only of
//! files in which nothing changes, where what was read once is still so.

use crate::failure::Result;
use std::sync::{Mutex, TryLockError};

/// What is read at once for whoever asks for less than SMALL, in bytes.
const AHEAD: usize = 64 << 10;
pub const SMALL: usize = 16 << 10;

/// Bytes of a file, in room that is made once.
#[derive(Default)]
struct Bytes {
    room: Vec<u8>,
    len: usize,
}

impl Bytes {
    fn get(&self) -> &[u8] {
        &self.room[..self.len]
    }

    fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<()> {
        self.len = 0;
        if self.room.is_empty() {
            self.room = vec![0; AHEAD];
        }
        self.len = read(&mut self.room)?;
        Ok(())
    }
}

/// Of read(2). The worker's position is behind it.
#[derive(Default)]
pub struct ReadAhead {
    bytes: Bytes,
    /// So many of them are used.
    at: usize,
}

impl ReadAhead {
    pub fn left(&self) -> usize {
        self.bytes.len - self.at
    }

    pub fn give(&mut self, to: &mut [u8]) -> usize {
        let n = self.left().min(to.len());
        to[..n].copy_from_slice(&self.bytes.get()[self.at..][..n]);
        self.at += n;
        n
    }

    /// Read more; what is left is lost.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<()> {
        self.at = 0;
        self.bytes.fill(read)
    }

    /// The position has moved.
    pub fn skip(&mut self) {
        self.at = self.bytes.len;
    }
}

/// Of pread(2): a part of the file, for who goes on where he was. Who jumps gets
/// what he asks for and no more.
#[derive(Default)]
pub struct Window(Mutex<Part>);

#[derive(Default)]
struct Part {
    start: u64,
    bytes: Bytes,
    /// The file ends with it.
    is_last: bool,
    /// Where the last reader stopped.
    next: u64,
}

impl Part {
    /// Bytes at the offset, or none at the end of the file; None: others are needed.
    fn give(&self, to: &mut [u8], offset: u64) -> Option<usize> {
        let skip = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let bytes = self.bytes.get().get(skip..);
        let n = bytes.map_or(0, |bytes| bytes.len().min(to.len()));
        if n < to.len() && !self.is_last {
            return None;
        }
        if let Some(bytes) = bytes {
            to[..n].copy_from_slice(&bytes[..n]);
        }
        Some(n)
    }
}

impl Window {
    /// Read few bytes at an offset; `read` asks the worker.
    pub fn read(
        &self,
        to: &mut [u8],
        offset: u64,
        read: impl Fn(&mut [u8], u64) -> Result<usize>,
    ) -> Result<usize> {
        let mut part = match self.0.try_lock() {
            Ok(part) => part,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread is waiting for its bytes.
            Err(TryLockError::WouldBlock) => return read(to, offset),
        };
        if let Some(n) = part.give(to, offset) {
            part.next = offset + n as u64;
            return Ok(n);
        }
        if offset != part.next {
            let n = read(to, offset)?;
            part.next = offset + n as u64;
            return Ok(n);
        }
        (part.start, part.is_last) = (offset, false);
        part.bytes.fill(|room| read(room, offset))?;
        part.is_last = part.bytes.len < AHEAD;
        let n = part.give(to, offset).unwrap_or_default();
        part.next = offset + n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use std::cell::RefCell;

    const LEN: usize = AHEAD + 1000;

    fn byte(at: u64) -> u8 {
        (at / 251 + at) as u8
    }

    /// Reads of a window, and what it asked for.
    fn reads(places: &[(u64, usize)]) -> Vec<(u64, usize)> {
        let asked = RefCell::new(Vec::new());
        let window = Window::default();
        let file = |to: &mut [u8], offset: u64| {
            asked.borrow_mut().push((offset, to.len()));
            let n = to.len().min(LEN.saturating_sub(offset as usize));
            let from = (offset..).map(byte);
            to[..n].iter_mut().zip(from).for_each(|(to, b)| *to = b);
            Ok(n)
        };
        for &(offset, len) in places {
            let mut to = vec![0; len];
            let n = window.read(&mut to, offset, file).expect("it is there");
            assert_eq!(n, len.min(LEN.saturating_sub(offset as usize)));
            assert!(to[..n].iter().zip(offset..).all(|(b, at)| *b == byte(at)));
        }
        asked.into_inner()
    }

    #[test]
    fn who_goes_on_asks_once_for_many_and_who_jumps_for_each() {
        assert_eq!(reads(&[(0, 1), (1, 1), (2, 10)]), [(0, AHEAD)]);
        assert_eq!(reads(&[(9, 1), (10, 1), (11, 3)]), [(9, 1), (10, AHEAD)]);
        let far = [(500, 4), (100, 4), (900, 4), (20, 4)];
        assert_eq!(reads(&far), far);
    }

    #[test]
    fn what_lies_across_its_end_is_whole_and_the_files_end_is_known() {
        let end = AHEAD as u64;
        let across = [(0, 1), (end - 2, 4), (end + 2, 5), (end + 990, 50)];
        let asked = [(0, AHEAD), (end - 2, 4), (end + 2, AHEAD)];
        assert_eq!(reads(&across), asked);
        assert_eq!(
            reads(&[(0, 1), (LEN as u64, 4), (LEN as u64 + 9, 4)]).len(),
            3
        );
        let past = [(LEN as u64 - 4, 2), (LEN as u64 - 2, 9), (LEN as u64, 9)];
        assert_eq!(reads(&past).len(), 2);
    }

    #[test]
    fn a_failure_is_told_and_nothing_is_kept_of_it() {
        let window = Window::default();
        let fail = |_: &mut [u8], _| Err(Failure::new(libc::EIO, ""));
        assert!(window.read(&mut [0], 0, fail).is_err());
        let one = |to: &mut [u8], _| {
            to[0] = 7;
            Ok(1)
        };
        let mut to = [0];
        assert_eq!(window.read(&mut to, 0, one), Ok(1));
        assert_eq!(to, [7]);
    }
}

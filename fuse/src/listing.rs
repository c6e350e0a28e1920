//! A directory as it is read, piece by piece, by whoever asks for which part.

use std::ffi::CStr;
use tane_linux::{Errno, Fd};

/// What was read ahead of a directory, and where that is.
#[derive(Default)]
pub struct Listing {
    buffer: Vec<u64>,
    /// Bytes that are valid, and those that were given out.
    length: usize,
    done: usize,
    /// The position of the first entry that was not given out.
    position: u64,
}

pub struct Entry<'l> {
    pub ino: u64,
    pub d_type: u8,
    /// The position of the entry behind this one.
    pub next: u64,
    pub name: &'l CStr,
}

/// In words of 8 bytes.
const BUFFER: usize = 4096;

impl Listing {
    /// Goes on at a position: 0, or one that an entry gave.
    pub fn seek(&mut self, dir: &Fd, position: u64) -> Result<(), Errno> {
        if position != 0 && position == self.position {
            return Ok(());
        }
        self.length = 0;
        self.done = 0;
        dir.sys().lseek(dir, position as i64, libc::SEEK_SET)?;
        self.position = position;
        Ok(())
    }

    /// The next entry, "." and ".." too; None at the end. It counts as given out
    /// when [`Self::take`] is told so.
    pub fn peek(&mut self, dir: &Fd) -> Result<Option<Entry<'_>>, Errno> {
        if self.done >= self.length {
            self.buffer.resize(BUFFER, 0);
            self.done = 0;
            self.length = 0;
            self.length = dir.sys().getdents(dir, &mut self.buffer)?;
            if self.length == 0 {
                return Ok(None);
            }
        }
        // SAFETY: the buffer's own bytes; the kernel filled in as many.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast::<u8>(), self.length) };
        let entry = parse(&bytes[self.done..]).ok_or(Errno(libc::EIO))?;
        Ok(Some(entry))
    }

    /// The entry that was looked at last has been given out.
    pub fn take(&mut self, next: u64, name: &[u8]) {
        // As linux_dirent64 is laid out: 19 bytes, the name, a NUL, aligned to 8.
        self.done += (19 + name.len() + 1).next_multiple_of(8);
        self.position = next;
    }
}

/// struct linux_dirent64: ino, off (8 bytes each), reclen (2), type (1), name.
fn parse(bytes: &[u8]) -> Option<Entry<'_>> {
    let word = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let length = usize::from(u16::from_ne_bytes(bytes.get(16..18)?.try_into().ok()?));
    Some(Entry {
        ino: word(0)?,
        next: word(8)?,
        d_type: *bytes.get(18)?,
        name: CStr::from_bytes_until_nul(bytes.get(19..length)?).ok()?,
    })
}

//! Where the data of a batch is: memory of this process, or memory that it shares with
//! another one.

use super::batch::Part;
use std::borrow::Cow;
use std::marker::PhantomData;

pub enum Room {
    Own(Vec<u8>),
    /// What this process alone writes, and another one reads when it is told to.
    Lent(Shared),
    /// What another process writes, at any time.
    Theirs(Shared),
    /// What a process that is trusted has written, and writes when it is told to.
    Borrowed(Shared),
}

/// A part of memory that is shared with another process, and mapped as long as this one
/// lives.
#[derive(Clone, Copy)]
pub struct Shared {
    pub at: *mut u8,
    pub len: usize,
}

// SAFETY: an address and a length; how the memory is used is said where it is.
unsafe impl Send for Shared {}

impl Room {
    /// Of zeroes.
    pub fn own(len: usize) -> Room {
        Room::Own(vec![0; len])
    }

    /// To be filled; nothing where another process fills it.
    pub fn bytes(&mut self) -> &mut [u8] {
        match self {
            Room::Own(bytes) => bytes,
            // SAFETY: mapped for good, and of this room alone until it is handed over;
            // who it is shared with only reads, and only what was handed over.
            Room::Lent(shared) => unsafe { std::slice::from_raw_parts_mut(shared.at, shared.len) },
            Room::Theirs(_) | Room::Borrowed(_) => &mut [],
        }
    }

    pub fn content(&self, part: Part) -> Content<'_> {
        match self {
            Room::Own(bytes) => Content::Settled(&bytes[part.start..part.end]),
            Room::Borrowed(shared) => {
                // SAFETY: mapped for good; who writes it waits until the room is given back.
                let bytes = unsafe { std::slice::from_raw_parts(shared.at, shared.len) };
                Content::Settled(&bytes[part.start..part.end])
            }
            Room::Lent(shared) | Room::Theirs(shared) => {
                assert!(part.start <= part.end && part.end <= shared.len);
                Content::Unsettled(Unsettled {
                    // SAFETY: within the memory, as just seen.
                    at: unsafe { shared.at.add(part.start) },
                    len: part.size(),
                    lifetime: PhantomData,
                })
            }
        }
    }
}

/// Bytes of a file.
#[derive(Clone, Copy)]
pub enum Content<'b> {
    Settled(&'b [u8]),
    /// Another process may write them meanwhile: they are for the host's kernel, or to
    /// be copied before anybody looks at them.
    Unsettled(Unsettled<'b>),
}

#[derive(Clone, Copy)]
pub struct Unsettled<'b> {
    at: *const u8,
    len: usize,
    lifetime: PhantomData<&'b [u8]>,
}

impl<'b> Content<'b> {
    pub fn len(self) -> usize {
        match self {
            Content::Settled(bytes) => bytes.len(),
            Content::Unsettled(bytes) => bytes.len,
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Where they are, for a system call that reads them.
    pub fn address(self) -> *const u8 {
        match self {
            Content::Settled(bytes) => bytes.as_ptr(),
            Content::Unsettled(bytes) => bytes.at,
        }
    }

    /// As they are now.
    pub fn settle(self) -> Cow<'b, [u8]> {
        match self {
            Content::Settled(bytes) => Cow::Borrowed(bytes),
            Content::Unsettled(bytes) => {
                let byte = |i| {
                    // SAFETY: within the memory; volatile, as it may change.
                    unsafe { bytes.at.add(i).read_volatile() }
                };
                Cow::Owned((0..bytes.len).map(byte).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_what_the_other_side_reads() {
        let mut memory = vec![0; 10];
        let shared = Shared {
            at: memory.as_mut_ptr(),
            len: memory.len(),
        };
        Room::Lent(shared).bytes()[3..6].copy_from_slice(b"abc");
        let part = Part { start: 3, end: 6 };
        let theirs = Room::Theirs(shared);
        assert_eq!(*theirs.content(part).settle(), *b"abc");
        assert_eq!(theirs.content(Part { start: 4, end: 5 }).len(), 1);
    }
}

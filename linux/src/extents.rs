//! Where a file lies on the device of its file system: FS_IOC_FIEMAP.

use crate::errno::{Errno, Result};
use crate::{Descriptor, Fd, Linux, Sys};

// linux/fiemap.h
const FS_IOC_FIEMAP: u32 = 0xc020_660b;
const FLAG_SYNC: u32 = 0x1;
const LAST: u32 = 0x1;
const UNKNOWN: u32 = 0x2;
const DELAYED: u32 = 0x4;
const INLINE: u32 = 0x200;
const UNWRITTEN: u32 = 0x800;
const MERGED: u32 = 0x1000;
const SHARED: u32 = 0x2000;

/// Extents per call; 56 bytes each.
const BATCH: usize = 128;
/// Calls for one file, and parts of one that are kept in mind: more than any file has, and
/// an end of what a damaged image, or the process that reads one, can make up.
const ASKED: usize = 1 << 20;
const PARTS: usize = 1 << 24;

/// A part of a file. Offsets and lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Where in the file it begins.
    pub start: u64,
    /// How long it is.
    pub len: u64,
    /// What is there.
    pub content: Content,
}

/// Where the bytes of an extent are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Its bytes are the device's, from this offset on.
    At(u64),
    /// Reserved, and never written: it reads as zero.
    Zeroes,
    /// Only the file system can tell: packed, encrypted, inline, not written yet.
    Unknown,
}

/// A part of a file in blocks that other files may have too: a reflink. What is packed
/// lies there as a whole, whatever part of it this is. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPart {
    /// Where in the file it begins.
    pub start: u64,
    /// How long it is.
    pub len: u64,
    /// Where the blocks are, by the file system's own count.
    pub physical: u64,
}

/// struct fiemap, with room for so many extents.
#[repr(C)]
struct Batch<const ROOM: usize = BATCH> {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Raw; ROOM],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Raw {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more_reserved: [u32; 3],
}

impl<const ROOM: usize> Batch<ROOM> {
    fn new() -> Self {
        Batch {
            start: 0,
            length: 0,
            flags: FLAG_SYNC,
            mapped: 0,
            count: ROOM as u32,
            reserved: 0,
            extents: [Raw::default(); ROOM],
        }
    }
}

impl<const ROOM: usize> Batch<ROOM> {
    /// What to ask for: these bytes. An answer has overwritten the whole, how many extents
    /// there is room for included; and it may be another program's that the system call
    /// was done by.
    fn of(&mut self, start: u64, length: u64) {
        (self.start, self.length, self.mapped) = (start, length, 0);
        self.count = ROOM as u32;
    }
}

/// Where the device has the first `size` bytes of a file, if it has them in one
/// piece. What the file system has not written yet it writes first.
pub fn sole_extent<L: Linux + ?Sized>(
    sys: Sys<L>,
    file: impl Descriptor,
    size: u64,
) -> Option<u64> {
    let mut batch = Batch::<1>::new();
    batch.of(0, size);
    sys.ioctl(file, FS_IOC_FIEMAP, &mut batch).ok()?;
    let [raw] = batch.extents;
    match content(&raw) {
        Content::At(physical) if batch.mapped == 1 && raw.logical == 0 && raw.length >= size => {
            Some(physical)
        }
        _ => None,
    }
}

/// The parts of a file that it may share with others, in order, from the first that ends
/// behind `from`; so many at once, and none if there are no more. Nothing is written for
/// that: what is not written yet is shared with nobody. ENOTTY or EOPNOTSUPP where the
/// file system does not say where its files lie.
pub fn shared_parts_from<L: Linux + ?Sized>(
    sys: Sys<L>,
    file: impl Descriptor,
    mut from: u64,
) -> Result<Vec<SharedPart>> {
    let (mut found, mut batch) = (Vec::new(), Box::new(Batch::<BATCH>::new()));
    for _ in 0..ASKED {
        if found.len() >= BATCH {
            break;
        }
        batch.flags = 0;
        batch.of(from, u64::MAX - from);
        sys.ioctl(&file, FS_IOC_FIEMAP, &mut *batch)?;
        let parts = &batch.extents[..BATCH.min(batch.mapped as usize)];
        let shared = parts.iter().filter(|raw| is_shared(raw));
        found.extend(shared.map(|raw| SharedPart {
            start: raw.logical,
            len: raw.length,
            physical: raw.physical,
        }));
        let last = parts.last().filter(|raw| raw.flags & LAST == 0);
        let next = last.map(|raw| raw.logical.saturating_add(raw.length));
        // A damaged image may say anything.
        match next.filter(|next| *next > from) {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(found)
}

/// Those of the first `end` bytes, as far as the file system tells.
pub fn shared_parts(fd: &Fd, end: u64) -> Vec<SharedPart> {
    let mut found: Vec<SharedPart> = Vec::new();
    let mut at = 0;
    while at < end && found.len() < PARTS {
        let Ok(parts) = shared_parts_from(fd.sys(), fd, at) else {
            break;
        };
        let Some(next) = parts.last().map(|part| part.start.saturating_add(part.len)) else {
            break;
        };
        found.extend(parts.into_iter().filter(|part| part.start < end));
        // A damaged image may say anything.
        if next <= at {
            break;
        }
        at = next;
    }
    found
}

fn is_shared(raw: &Raw) -> bool {
    raw.flags & (SHARED | UNKNOWN | DELAYED | INLINE | UNWRITTEN) == SHARED
}

/// The extents of the first bytes of a file, in order; between them are holes.
pub struct Extents<D> {
    file: D,
    end: u64,
    batch: Box<Batch>,
    next: usize,
    /// Where the next call starts; None after the last extent.
    from: Option<u64>,
}

impl<D: Descriptor> Extents<D> {
    /// Those of the first `end` bytes of a file, which stays open meanwhile.
    pub fn of(file: D, end: u64) -> Self {
        Extents {
            file,
            end,
            batch: Box::new(Batch::new()),
            next: 0,
            from: Some(0),
        }
    }

    /// The next one, asked of the kernel whose the file is. What the file system has not
    /// written yet it writes first. EUCLEAN: they are not in order.
    pub fn following<L: Linux + ?Sized>(&mut self, sys: Sys<L>) -> Result<Option<Extent>> {
        if self.next == self.batch.mapped as usize && !self.fetch(sys)? {
            return Ok(None);
        }
        let raw = self.batch.extents[self.next];
        self.next += 1;
        let stop = raw.logical.checked_add(raw.length);
        let is_in_order = raw.length > 0 && self.from.is_none_or(|from| stop > Some(from));
        let (true, Some(stop)) = (is_in_order, stop) else {
            return Err(Errno(libc::EUCLEAN));
        };
        self.from = Some(stop).filter(|_| raw.flags & LAST == 0);
        Ok(Some(Extent {
            start: raw.logical,
            len: raw.length,
            content: content(&raw),
        }))
    }

    fn fetch<L: Linux + ?Sized>(&mut self, sys: Sys<L>) -> Result<bool> {
        let Some(from) = self.from.filter(|from| *from < self.end) else {
            return Ok(false);
        };
        self.batch.of(from, self.end - from);
        self.next = 0;
        sys.ioctl(&self.file, FS_IOC_FIEMAP, &mut *self.batch)?;
        self.batch.mapped = self.batch.mapped.min(BATCH as u32);
        Ok(self.batch.mapped > 0)
    }
}

/// Flags that are not known here may say anything.
fn content(raw: &Raw) -> Content {
    match raw.flags & !(LAST | MERGED | SHARED) {
        0 => Content::At(raw.physical),
        UNWRITTEN => Content::Zeroes,
        _ => Content::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Answers one extent a time, and that there is room for many more than there is.
    struct Liar(AtomicU64);

    impl Linux for Liar {
        unsafe fn call(&self, _: i64, args: [u64; 6]) -> i64 {
            // SAFETY: what the two who ask give.
            let batch = unsafe { &mut *(args[2] as *mut Batch) };
            self.0.fetch_max(batch.count.into(), Ordering::Relaxed);
            batch.extents[0] = Raw {
                logical: batch.start,
                length: 4096,
                flags: SHARED | if batch.start > 40_960 { LAST } else { 0 },
                ..Raw::default()
            };
            (batch.mapped, batch.count) = (1, 1024);
            0
        }
    }

    #[test]
    fn no_answer_says_how_much_room_the_next_one_has() {
        let liar = Liar(AtomicU64::new(0));
        let sys = Sys(&liar as &dyn Linux);
        assert!(shared_parts_from(sys, 0, 0).is_ok_and(|parts| parts.len() > 2));
        let mut extents = Extents::of(0, 1 << 20);
        while let Ok(Some(_)) = extents.following(sys) {}
        assert_eq!(liar.0.into_inner(), BATCH as u64);
    }

    #[test]
    fn only_what_is_known_to_be_plain_is_taken_for_plain() {
        for bit in (0..32).map(|n| 1u32 << n) {
            let raw = Raw {
                physical: 4096,
                flags: bit,
                ..Raw::default()
            };
            let expected = match bit {
                LAST | MERGED | SHARED => Content::At(4096),
                UNWRITTEN => Content::Zeroes,
                _ => Content::Unknown,
            };
            assert_eq!(content(&raw), expected, "{bit:#x}");
        }
    }
}

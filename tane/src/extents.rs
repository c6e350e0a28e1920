//! Where a file lies on the device of its file system: FS_IOC_FIEMAP.

use crate::error::{Errno, Result};
use crate::file::File;
use crate::kernel::Kernel;
use crate::sys::SysResult;

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

/// The extents of a file in order; between them are holes. EUCLEAN: they are not in
/// order.
pub struct Extents {
    kernel: Kernel,
    file: i32,
    end: u64,
    batch: Box<Batch>,
    next: usize,
    /// Where the next call starts; None after the last extent.
    from: Option<u64>,
}

/// struct fiemap, with room for so many extents.
#[repr(C)]
pub struct Batch<const ROOM: usize = BATCH> {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Raw; ROOM],
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

/// Where the device has the first `size` bytes of a file, if it has them in one
/// piece. What the file system has not written yet it writes first.
pub(crate) fn sole_extent(kernel: &Kernel, file: i32, size: u64) -> Option<u64> {
    let mut batch = Batch::<1>::new();
    batch.length = size;
    kernel.ioctl_with(file, FS_IOC_FIEMAP, &mut batch).ok()?;
    let [raw] = batch.extents;
    match content(&raw) {
        Content::At(physical) if batch.mapped == 1 && raw.logical == 0 && raw.length >= size => {
            Some(physical)
        }
        _ => None,
    }
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

impl File {
    /// The parts of this file that it may share with others, in order, from the first
    /// that ends behind `from`; so many at once, and none if there are no more. Nothing
    /// is written for that: what is not written yet is shared with nobody. ENOTTY or
    /// EOPNOTSUPP where the file system does not say where its files lie.
    pub fn shared_parts(&self, from: u64) -> Result<Vec<SharedPart>> {
        let ask = |request, map: &mut Fiemap| {
            let asked = self.kernel().ioctl_with(self.kernel_fd(), request, map);
            asked.map_err(|errno| errno.during("ask where a file lies"))
        };
        shared_parts_by(ask, from)
    }
}

/// struct fiemap of linux/fiemap.h, with room behind it.
pub type Fiemap = Batch;

/// See [`File::shared_parts`], for whatever answers an ioctl(2) of this number.
pub fn shared_parts_by<E>(
    mut ask: impl FnMut(u32, &mut Fiemap) -> std::result::Result<(), E>,
    mut from: u64,
) -> std::result::Result<Vec<SharedPart>, E> {
    let (mut found, mut batch) = (Vec::new(), Box::new(Fiemap::new()));
    while found.len() < BATCH {
        batch.flags = 0;
        (batch.start, batch.length, batch.mapped) = (from, u64::MAX - from, 0);
        ask(FS_IOC_FIEMAP, &mut batch)?;
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

fn is_shared(raw: &Raw) -> bool {
    raw.flags & (SHARED | UNKNOWN | DELAYED | INLINE | UNWRITTEN) == SHARED
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

impl Extents {
    pub(crate) fn of(kernel: &Kernel, file: i32, end: u64) -> Self {
        Extents {
            kernel: kernel.clone(),
            file,
            end,
            batch: Box::new(Batch::new()),
            next: 0,
            from: Some(0),
        }
    }

    fn following(&mut self) -> SysResult<Option<Extent>> {
        if self.next == self.batch.mapped as usize && !self.fetch()? {
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

    fn fetch(&mut self) -> SysResult<bool> {
        let Some(from) = self.from.filter(|from| *from < self.end) else {
            return Ok(false);
        };
        self.batch.start = from;
        self.batch.length = self.end - from;
        self.batch.mapped = 0;
        self.next = 0;
        self.kernel
            .ioctl_with(self.file, FS_IOC_FIEMAP, &mut *self.batch)?;
        self.batch.mapped = self.batch.mapped.min(BATCH as u32);
        Ok(self.batch.mapped > 0)
    }
}

impl Iterator for Extents {
    type Item = Result<Extent>;

    fn next(&mut self) -> Option<Result<Extent>> {
        let following = self.following().transpose()?;
        Some(following.map_err(|errno| errno.during("ask where a file lies")))
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

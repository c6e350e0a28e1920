//! Parts of backends, one after the other, as one disk.

use crate::backend::{check_range, refuse_write, Backend};
use crate::blocks::read_padded;
use crate::buffers::{clear, slice, total, Buffers};
use std::io;
use std::sync::Arc;

/// A range of a disk, and where its bytes are.
pub(crate) struct Part {
    pub len: u64,
    /// Nothing: zeros, which cannot be written. Else with the offset in it.
    pub from: Option<(Arc<dyn Backend>, u64)>,
}

pub(crate) struct Concat {
    parts: Vec<(u64, Part)>,
    size: u64,
    write: bool,
}

impl Concat {
    /// Errors: more than 2^63 bytes.
    pub fn new(parts: Vec<Part>, write: bool) -> io::Result<Self> {
        let mut size = 0u64;
        let mut placed = Vec::new();
        for part in parts {
            let start = size;
            size = size
                .checked_add(part.len)
                .filter(|size| *size < 1 << 63)
                .ok_or_else(|| crate::pages::invalid("claims to be larger than any disk"))?;
            placed.push((start, part));
        }
        Ok(Self {
            parts: placed,
            size,
            write,
        })
    }

    /// Call `each` for the parts of a range: with where it starts in the part
    /// and in the range, and its length.
    fn each(
        &self,
        offset: u64,
        len: u64,
        mut each: impl FnMut(&Part, u64, usize, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        check_range(self.size, offset, len)?;
        let first = self.parts.partition_point(|(at, _)| *at <= offset);
        for (at, part) in &self.parts[first.saturating_sub(1)..] {
            if *at >= offset + len {
                break;
            }
            let (from, to) = ((*at).max(offset), (at + part.len).min(offset + len));
            if from < to {
                each(
                    part,
                    from - at,
                    (from - offset) as usize,
                    (to - from) as usize,
                )?;
            }
        }
        Ok(())
    }

    fn each_to_write(
        &self,
        offset: u64,
        len: u64,
        mut each: impl FnMut(&dyn Backend, u64, usize, usize) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.write {
            return Err(refuse_write());
        }
        self.each(offset, len, |part, at, start, n| match &part.from {
            Some((from, base)) => each(&**from, base + at, start, n),
            None => Err(refuse_write()),
        })
    }
}

impl Backend for Concat {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_only(&self) -> bool {
        !self.write
    }

    fn read(&self, to: Buffers, offset: u64) -> io::Result<()> {
        self.each(offset, total(to) as u64, |part, at, start, n| {
            let to = slice(to, start, n);
            match &part.from {
                Some((from, base)) => read_padded(&**from, &to, base + at),
                None => {
                    // SAFETY: guest memory, see `Buffers`.
                    unsafe { clear(&to) };
                    Ok(())
                }
            }
        })
    }

    fn write(&self, from: Buffers, offset: u64) -> io::Result<()> {
        self.each_to_write(offset, total(from) as u64, |to, at, start, n| {
            to.write(&slice(from, start, n), at)
        })
    }

    fn flush(&self) -> io::Result<()> {
        let mut files = self.parts.iter().filter_map(|(_, part)| part.from.as_ref());
        files.try_for_each(|(file, _)| file.flush())
    }

    fn discard(&self, offset: u64, len: u64) -> io::Result<()> {
        self.each_to_write(offset, len, |to, at, _, n| to.discard(at, n as u64))
    }

    fn write_zeroes(&self, offset: u64, len: u64, may_unmap: bool) -> io::Result<()> {
        self.each_to_write(offset, len, |to, at, _, n| {
            to.write_zeroes(at, n as u64, may_unmap)
        })
    }

    fn try_read(&self, to: Buffers, offset: u64) -> io::Result<bool> {
        let mut all = true;
        self.each(offset, total(to) as u64, |part, at, start, n| {
            let to = slice(to, start, n);
            match &part.from {
                Some((from, base)) if base + at + n as u64 <= from.size() => {
                    all = all && from.try_read(&to, base + at)?;
                }
                _ => all = false,
            }
            Ok(())
        })?;
        Ok(all)
    }
}

//! What is recorded, and how it lies in the file: a header, the bytes as they came,
//! and a table of what is where.

use crate::errors::other;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const MAGIC: &[u8; 8] = b"TANEREDO";
const VERSION: u64 = 1;
/// Numbers of the header: version, size, where the table is, its entries, its
/// checksum, the image's two, and the checksum of all these.
const NUMBERS: usize = 8;
const HEADER: usize = 8 + 8 * NUMBERS;
/// Where the first bytes are.
const START: u64 = 4096;
/// Start, length, place.
const ENTRY: usize = 24;
/// Most entries that are believed, in a file of anybody's.
const MOST: u64 = 1 << 26;

/// A range of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub len: u64,
    /// Where in the file; 0 for zeros.
    pub at: u64,
}

impl Extent {
    pub fn is_zero(&self) -> bool {
        self.at == 0
    }

    /// Without its first bytes.
    fn from(self, skipped: u64) -> Extent {
        Extent {
            len: self.len - skipped,
            at: if self.is_zero() { 0 } else { self.at + skipped },
        }
    }
}

/// What was recorded so far; no two extents overlap.
#[derive(Default)]
pub struct Log {
    extents: BTreeMap<u64, Extent>,
    /// How much of the file is used, behind [`START`].
    used: u64,
}

/// What a place of the file, or none, has.
pub fn read(file: &File, from: u64, to: &mut [u8]) -> io::Result<()> {
    match from {
        0 => {
            to.fill(0);
            Ok(())
        }
        at => file.read_exact_at(to, at),
    }
}

impl Log {
    pub fn write(&mut self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let at = START + self.used;
        file.write_all_at(bytes, at)?;
        self.used += bytes.len() as u64;
        let len = bytes.len() as u64;
        self.insert(offset, Extent { len, at });
        Ok(())
    }

    pub fn zero(&mut self, offset: u64, len: u64) {
        self.insert(offset, Extent { len, at: 0 });
    }

    fn insert(&mut self, start: u64, extent: Extent) {
        if extent.len == 0 {
            return;
        }
        let end = start + extent.len;
        self.split(start);
        self.split(end);
        let covered: Vec<u64> = self.extents.range(start..end).map(|(at, _)| *at).collect();
        for at in covered {
            self.extents.remove(&at);
        }
        let before = self.extents.range_mut(..start).next_back();
        if let Some((at, before)) = before.filter(|(at, e)| **at + e.len == start) {
            let follows = match before.is_zero() {
                true => extent.is_zero(),
                false => extent.at == before.at + (start - at),
            };
            if follows {
                before.len += extent.len;
                return;
            }
        }
        self.extents.insert(start, extent);
    }

    /// Lets an extent begin here if one goes on here.
    fn split(&mut self, here: u64) {
        let before = self.extents.range_mut(..here).next_back();
        let Some((at, before)) = before.filter(|(at, e)| **at + e.len > here) else {
            return;
        };
        let kept = here - at;
        let rest = before.from(kept);
        before.len = kept;
        self.extents.insert(here, rest);
    }

    /// Calls `each` for the pieces of a range, in order: where and how long, and the
    /// place in the file (0 for zeros) of what is recorded.
    pub fn pieces(
        &self,
        offset: u64,
        len: u64,
        mut each: impl FnMut(u64, u64, Option<u64>) -> io::Result<()>,
    ) -> io::Result<()> {
        let end = offset + len;
        let first = self.extents.range(..=offset).next_back();
        let first = first.map_or(offset, |(at, _)| *at);
        let mut done = offset;
        for (&start, extent) in self.extents.range(first..end) {
            if start + extent.len <= done {
                continue;
            }
            if start > done {
                each(done, start - done, None)?;
                done = start;
            }
            let rest = extent.from(done - start);
            let len = rest.len.min(end - done);
            each(done, len, Some(rest.at))?;
            done += len;
        }
        match done < end {
            true => each(done, end - done, None),
            false => Ok(()),
        }
    }

    /// Makes the file one that says what is to be done, durably.
    pub fn seal(&self, file: &File, size: u64, identity: (u64, u64)) -> io::Result<Header> {
        let mut table = Vec::with_capacity(self.extents.len() * ENTRY);
        for (start, extent) in &self.extents {
            for number in [*start, extent.len, extent.at] {
                table.extend(number.to_le_bytes());
            }
        }
        let header = Header {
            size,
            table: START + self.used,
            entries: self.extents.len() as u64,
            checksum: crc32c::crc32c(&table).into(),
            identity,
        };
        file.write_all_at(&table, header.table)?;
        file.sync_all()?;
        file.write_all_at(&header.bytes(), 0)?;
        file.sync_all()?;
        Ok(header)
    }
}

/// Says that there is something to be done, and where it is written.
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the disk.
    pub size: u64,
    table: u64,
    entries: u64,
    checksum: u64,
    /// Of the image.
    pub identity: (u64, u64),
}

impl Header {
    fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        let (inode, born) = self.identity;
        let numbers = [
            VERSION,
            self.size,
            self.table,
            self.entries,
            self.checksum,
            inode,
            born,
        ];
        for (number, to) in numbers.iter().zip(bytes[8..].chunks_mut(8)) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        let last = HEADER - 8;
        let sum = u64::from(crc32c::crc32c(&bytes[..last]));
        bytes[last..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// None if nothing is to be done: it is empty, or was not finished.
    pub fn read(file: &File) -> io::Result<Option<Header>> {
        let mut bytes = [0; HEADER];
        match file.read_exact_at(&mut bytes, 0) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let number = |i: usize| {
            let at = 8 + 8 * i;
            u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
        };
        let sum = u64::from(crc32c::crc32c(&bytes[..HEADER - 8]));
        if bytes[..8] != *MAGIC || sum != number(NUMBERS - 1) {
            return Ok(None);
        }
        if number(0) != VERSION {
            return Err(other("was written by a newer tane, which has to finish it"));
        }
        Ok(Some(Header {
            size: number(1),
            table: number(2),
            entries: number(3),
            checksum: number(4),
            identity: (number(5), number(6)),
        }))
    }

    /// What is to be done.
    pub fn extents(&self, file: &File) -> io::Result<Vec<(u64, Extent)>> {
        let damaged = || other("is damaged: the image is as far as it got");
        if self.entries > MOST {
            return Err(damaged());
        }
        let mut table = vec![0; self.entries as usize * ENTRY];
        file.read_exact_at(&mut table, self.table)?;
        if u64::from(crc32c::crc32c(&table)) != self.checksum {
            return Err(damaged());
        }
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let entry = |e: &[u8]| {
            let (len, at) = (number(&e[8..16]), number(&e[16..]));
            (number(&e[..8]), Extent { len, at })
        };
        Ok(table.chunks(ENTRY).map(entry).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(log: &Log, offset: u64, len: u64) -> Vec<(u64, u64, Option<u64>)> {
        let mut all = Vec::new();
        let kept = log.pieces(offset, len, |at, len, from| {
            all.push((at, len, from));
            Ok(())
        });
        kept.expect("nothing fails");
        all
    }

    #[test]
    fn what_was_written_last_is_what_is_read() {
        let mut log = Log::default();
        log.insert(100, Extent { len: 100, at: 5000 });
        log.zero(120, 10);
        log.insert(90, Extent { len: 20, at: 6000 });
        log.insert(200, Extent { len: 10, at: 5200 });
        let wanted = [
            (80, 10, None),
            (90, 20, Some(6000)),
            (110, 10, Some(5010)),
            (120, 10, Some(0)),
            (130, 70, Some(5030)),
            (200, 10, Some(5200)),
            (210, 5, None),
        ];
        assert_eq!(all(&log, 80, 135), wanted);
        assert_eq!(
            all(&log, 125, 10),
            [(125, 5, Some(0)), (130, 5, Some(5030))]
        );
        assert_eq!(all(&log, 300, 5), [(300, 5, None)]);
    }

    #[test]
    fn what_is_written_on_and_on_is_one_extent() {
        let mut log = Log::default();
        for i in 0..50 {
            log.insert(
                i * 10,
                Extent {
                    len: 10,
                    at: 4096 + i * 10,
                },
            );
            log.zero(10_000 + i * 10, 10);
        }
        assert_eq!(log.extents.len(), 2);
    }
}

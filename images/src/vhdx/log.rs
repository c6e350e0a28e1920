//! The log of a VHDX: changes to its tables that were under way when whoever
//! wrote it stopped. They have to be made before anything else is believed.

use super::header::{checksum, Header};
use crate::backend::Backend;
use crate::buffers::buffer;
use crate::pages::{invalid, le32, le64, read_exactly};
use std::io;

const SECTOR: usize = 4096;
/// The longest log that is looked at, in bytes; Windows makes one of 1 MiB.
const MOST: u64 = 64 << 20;
/// What all changes clear at most, in bytes. A log changes tables and never contents: the
/// bitmaps of 64 TiB, in sectors of 512 bytes, are 16 GiB, and its table of blocks half a GiB.
const MOST_ZEROS: u64 = 17 << 30;
/// In that many places: as many as a log of 1 MiB can name. Each may take memory.
const MOST_RANGES: u32 = 32 << 10;
/// How often the log's length is summed up to find the entries that are whole. Entries do
/// not overlap, but for those of earlier rounds that newer ones were written into.
const MOST_SUMS: usize = 16;

/// One entry, checked.
pub(super) struct Entry {
    bytes: Vec<u8>,
}

impl Entry {
    /// How long the file was, for certain, when it was written.
    fn flushed(&self) -> u64 {
        le64(&self.bytes, 48)
    }
}

/// Where an entry begins, and what it says of itself.
#[derive(Clone, Copy)]
struct EntryHead {
    at: usize,
    len: usize,
    sequence: u64,
    tail: usize,
}

/// The log, and what is known of each of its sectors.
struct Log {
    bytes: Vec<u8>,
    id: [u8; 16],
    /// Whether a whole entry begins there, once somebody has asked.
    known: Vec<Option<Option<EntryHead>>>,
    /// Bytes that may still be summed up.
    left: usize,
}

/// What has to be replayed, oldest first; nothing if the log is empty. Errors:
/// the log should hold something, and nothing in it is whole.
pub(super) fn entries(file: &dyn Backend, header: &Header) -> io::Result<Vec<Entry>> {
    let Some((id, region)) = header.log() else {
        return Ok(Vec::new());
    };
    if region.len % SECTOR as u64 != 0 || region.len > MOST || region.len == 0 {
        return Err(senseless());
    }
    let bytes = read_exactly(file, region.offset, region.len as usize)?;
    let mut log = Log {
        known: vec![None; bytes.len() / SECTOR],
        left: bytes.len().saturating_mul(MOST_SUMS),
        bytes,
        id,
    };
    // The newest sequence that is whole: from an entry's tail to the entry.
    let mut best: Vec<EntryHead> = Vec::new();
    let mut start = 0;
    while start < log.bytes.len() {
        let sequence = log.from(start)?;
        let used: usize = sequence.iter().map(|e| e.len).sum();
        let newest = |s: &[EntryHead]| s.last().map_or(0, |e| e.sequence);
        let whole = sequence.last().is_some_and(|last| last.tail == start);
        if whole && newest(&sequence) > newest(&best) {
            best = sequence;
        }
        // An inner entry starts no sequence that is longer.
        start += used.max(SECTOR);
    }
    if best.is_empty() {
        return Err(invalid("its log is damaged, and with it the image"));
    }
    let best: Vec<_> = best.into_iter().map(|head| log.entry(head)).collect();
    match best.iter().any(|entry| entry.flushed() > file.size()) {
        true => Err(cut_short()),
        false => Ok(best),
    }
}

impl Log {
    /// Entries in a row from `start` on, whose last one may point back to `start`.
    fn from(&mut self, start: usize) -> io::Result<Vec<EntryHead>> {
        let mut found: Vec<EntryHead> = Vec::new();
        let mut position = start;
        let mut used = 0;
        while let Some(entry) = self.at(position % self.bytes.len())? {
            let follows = found
                .last()
                .is_none_or(|e| e.sequence.checked_add(1) == Some(entry.sequence));
            used += entry.len;
            if !follows || used > self.bytes.len() {
                break;
            }
            position += entry.len;
            found.push(entry);
        }
        // What follows the last entry with this tail belongs to nothing.
        let end = found.iter().rposition(|e| e.tail == start);
        found.truncate(end.map_or(found.len(), |end| end + 1));
        Ok(found)
    }

    /// The entry that begins there, if it is whole. Errors: finding out has taken more than
    /// it does in any log.
    fn at(&mut self, at: usize) -> io::Result<Option<EntryHead>> {
        if let Some(known) = self.known[at / SECTOR] {
            return Ok(known);
        }
        let bytes = &self.bytes[at..at + SECTOR];
        let head = EntryHead {
            at,
            len: le32(bytes, 8) as usize,
            sequence: le64(bytes, 16),
            tail: le32(bytes, 12) as usize,
        };
        let len = head.len;
        let is_entry = bytes.starts_with(b"loge") && bytes[32..48] == self.id;
        let fits = len != 0 && len.is_multiple_of(SECTOR) && len <= self.bytes.len();
        let mut found = None;
        if is_entry && fits {
            let left = self.left.checked_sub(len);
            self.left = left.ok_or_else(|| invalid("its log has entries inside entries"))?;
            let entry = self.entry(head);
            found = (checksum(&entry.bytes) == le32(&entry.bytes, 4)).then_some(head);
        }
        self.known[at / SECTOR] = Some(found);
        Ok(found)
    }

    fn entry(&self, EntryHead { at, len, .. }: EntryHead) -> Entry {
        let straight = len.min(self.bytes.len() - at);
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&self.bytes[at..at + straight]);
        bytes.extend_from_slice(&self.bytes[..len - straight]);
        Entry { bytes }
    }
}

/// Something that an entry changes in the file.
enum Change {
    Zero { at: u64, len: u64 },
    Sector { at: u64, end: u64, bytes: Vec<u8> },
}

fn changes(entry: &Entry, mut make: impl FnMut(Change) -> io::Result<()>) -> io::Result<()> {
    let entry = &entry.bytes;
    let count = le32(entry, 24) as usize;
    let head = 64usize.saturating_add(count.saturating_mul(32));
    let mut data = head.div_ceil(SECTOR).saturating_mul(SECTOR);
    if data > entry.len() {
        return Err(senseless());
    }
    for descriptor in entry[64..head].chunks_exact(32) {
        let at = le64(descriptor, 16);
        make(match &descriptor[..4] {
            b"zero" => Change::Zero {
                at,
                len: le64(descriptor, 8),
            },
            b"desc" => {
                let bytes = entry.get(data..data + SECTOR);
                let mut bytes = bytes.ok_or_else(senseless)?.to_vec();
                data += SECTOR;
                // Both ends of the sector were put aside to mark it.
                bytes[..8].copy_from_slice(&descriptor[8..16]);
                bytes[SECTOR - 4..].copy_from_slice(&descriptor[4..8]);
                let end = at.checked_add(SECTOR as u64).ok_or_else(senseless)?;
                Change::Sector { at, end, bytes }
            }
            _ => return Err(senseless()),
        })?;
    }
    Ok(())
}

/// How long the file has to be for the changes, in bytes. Errors: they make no sense, or
/// are more than tables can need.
pub(super) fn end(entries: &[Entry]) -> io::Result<u64> {
    let mut end = entries.last().map_or(0, |last| le64(&last.bytes, 56));
    let (mut zeros, mut ranges) = (0u64, 0);
    for entry in entries {
        changes(entry, |change| {
            match change {
                Change::Zero { len, .. } => {
                    zeros = zeros.saturating_add(len);
                    ranges += 1;
                }
                Change::Sector { end: its, .. } => end = end.max(its),
            }
            Ok(())
        })?;
    }
    if zeros > MOST_ZEROS || ranges > MOST_RANGES {
        let text =
            format!("its log clears {zeros} bytes in {ranges} places: no tables are like it");
        return Err(invalid(text));
    }
    Ok(end)
}

/// Make the changes that lie inside `file`.
pub(super) fn apply(file: &dyn Backend, entries: &[Entry]) -> io::Result<()> {
    let size = file.size();
    let make = |change| match change {
        Change::Zero { at, .. } if at >= size => Ok(()),
        Change::Zero { at, len } => file.write_zeroes(at, len.min(size - at), true),
        Change::Sector { end, .. } if end > size => Ok(()),
        Change::Sector { at, bytes, .. } => file.write(&[buffer(&bytes)], at),
    };
    entries.iter().try_for_each(|entry| changes(entry, make))
}

/// Make the changes, which take a file that is this long, and make them durable.
pub(super) fn replay(file: &dyn Backend, entries: &[Entry], end: u64) -> io::Result<()> {
    if end > file.size() {
        file.grow(end).map_err(|_| cut_short())?;
    }
    apply(file, entries)?;
    file.flush()
}

fn cut_short() -> io::Error {
    invalid("is cut short: its log knows a longer file")
}

fn senseless() -> io::Error {
    invalid("its log makes no sense")
}

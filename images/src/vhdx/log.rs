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

/// One entry, checked.
pub(super) struct Entry {
    bytes: Vec<u8>,
}

impl Entry {
    fn sequence(&self) -> u64 {
        le64(&self.bytes, 16)
    }

    fn tail(&self) -> usize {
        le32(&self.bytes, 12) as usize
    }
}

/// What has to be replayed, oldest first; nothing if the log is empty. Errors:
/// the log should hold something, and nothing in it is whole.
pub(super) fn entries(file: &dyn Backend, header: &Header) -> io::Result<Vec<Entry>> {
    let Some((id, region)) = header.log() else {
        return Ok(Vec::new());
    };
    if region.len % SECTOR as u64 != 0 || region.len > MOST || region.len == 0 {
        return Err(invalid("its log makes no sense"));
    }
    let log = read_exactly(file, region.offset, region.len as usize)?;
    // The newest sequence that is whole: from an entry's tail to the entry.
    let mut best: Vec<Entry> = Vec::new();
    let mut start = 0;
    while start < log.len() {
        let sequence = from(&log, start, &id);
        let used: usize = sequence.iter().map(|e| e.bytes.len()).sum();
        let newest = |s: &[Entry]| s.last().map_or(0, Entry::sequence);
        let whole = sequence.last().is_some_and(|last| last.tail() == start);
        if whole && newest(&sequence) > newest(&best) {
            best = sequence;
        }
        // An inner entry starts no sequence that is longer.
        start += used.max(SECTOR);
    }
    if best.is_empty() {
        return Err(invalid("its log is damaged, and with it the image"));
    }
    Ok(best)
}

/// Entries in a row from `start` on, whose last one may point back to `start`.
fn from(log: &[u8], start: usize, id: &[u8; 16]) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut position = start;
    let mut used = 0;
    while let Some(entry) = entry(log, position % log.len(), id) {
        let follows = found
            .last()
            .is_none_or(|e| entry.sequence() == e.sequence() + 1);
        used += entry.bytes.len();
        if !follows || used > log.len() {
            break;
        }
        position += entry.bytes.len();
        found.push(entry);
    }
    // What follows the last entry with this tail belongs to nothing.
    let end = found.iter().rposition(|e| e.tail() == start);
    found.truncate(end.map_or(found.len(), |end| end + 1));
    found
}

fn entry(log: &[u8], at: usize, id: &[u8; 16]) -> Option<Entry> {
    let head = log.get(at..at + SECTOR)?;
    let len = le32(head, 8) as usize;
    if !head.starts_with(b"loge") || len == 0 || !len.is_multiple_of(SECTOR) || len > log.len() {
        return None;
    }
    let mut bytes = Vec::with_capacity(len);
    let straight = len.min(log.len() - at);
    bytes.extend_from_slice(&log[at..at + straight]);
    bytes.extend_from_slice(&log[..len - straight]);
    (bytes[32..48] == *id && checksum(&bytes) == le32(&bytes, 4)).then_some(Entry { bytes })
}

/// Make the changes, and make them durable.
pub(super) fn replay(file: &dyn Backend, entries: &[Entry]) -> io::Result<()> {
    for entry in entries {
        one(file, &entry.bytes)?;
    }
    if let Some(last) = entries.last() {
        let size = le64(&last.bytes, 56);
        if size > file.size() {
            let lost = |_| invalid("is cut short: its log knows a longer file");
            file.grow(size).map_err(lost)?;
        }
    }
    file.flush()
}

fn one(file: &dyn Backend, entry: &[u8]) -> io::Result<()> {
    let count = le32(entry, 24) as usize;
    let head = 64usize.saturating_add(count.saturating_mul(32));
    let mut data = head.div_ceil(SECTOR).saturating_mul(SECTOR);
    let wrong = || invalid("its log makes no sense");
    if data > entry.len() {
        return Err(wrong());
    }
    for descriptor in entry[64..head].chunks_exact(32) {
        let at = le64(descriptor, 16);
        match &descriptor[..4] {
            b"zero" => {
                let len = le64(descriptor, 8).min(file.size().saturating_sub(at));
                file.write_zeroes(at, len, true)?;
            }
            b"desc" => {
                let mut sector = entry.get(data..data + SECTOR).ok_or_else(wrong)?.to_vec();
                data += SECTOR;
                // Both ends of the sector were put aside to mark it.
                sector[..8].copy_from_slice(&descriptor[8..16]);
                sector[SECTOR - 4..].copy_from_slice(&descriptor[4..8]);
                let end = at.checked_add(SECTOR as u64).ok_or_else(wrong)?;
                if end > file.size() {
                    file.grow(end).map_err(|_| wrong())?;
                }
                file.write(&[buffer(&sector)], at)?;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(())
}

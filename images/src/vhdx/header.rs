//! What a VHDX starts with.

use super::{guid, MIB};
use crate::backend::Backend;
use crate::buffers::buffer;
use crate::pages::{invalid, le32, le64, read_exactly, unsupported};
use std::io;

const KIB: u64 = 1 << 10;
const HEADERS: [u64; 2] = [64 * KIB, 128 * KIB];
const REGION_TABLES: [u64; 2] = [192 * KIB, 256 * KIB];
const BAT: [u8; 16] = guid(0x2dc27766, 0xf623, 0x4200, 0x9d64115e9bfd4a08);
const METADATA: [u8; 16] = guid(0x8b7ca206, 0x4790, 0x4b9a, 0xb8fe575f050f886e);

/// A part of the file, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Region {
    pub offset: u64,
    pub len: u64,
}

/// The newer of the two headers: each change goes to the other one.
pub(super) struct Header {
    bytes: Vec<u8>,
    at: usize,
}

/// The checksum of a structure in whose bytes 4 to 8 it stands itself.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let start = crc32c::crc32c(&bytes[..4]);
    let zeros = crc32c::crc32c_append(start, &[0; 4]);
    crc32c::crc32c_append(zeros, &bytes[8..])
}

impl Header {
    pub fn read(file: &dyn Backend) -> io::Result<Self> {
        let mut best: Option<Self> = None;
        for (at, offset) in HEADERS.into_iter().enumerate() {
            let bytes = read_exactly(file, offset, 4096)?;
            if bytes.starts_with(b"head") && checksum(&bytes) == le32(&bytes, 4) {
                let header = Self { bytes, at };
                if best
                    .as_ref()
                    .is_none_or(|b| header.sequence() > b.sequence())
                {
                    best = Some(header);
                }
            }
        }
        let best = best.ok_or_else(|| invalid("both of its headers are damaged"))?;
        let version = u16::from_le_bytes([best.bytes[66], best.bytes[67]]);
        if version != 1 {
            return Err(unsupported(format!("has the unknown version {version}")));
        }
        Ok(best)
    }

    fn sequence(&self) -> u64 {
        le64(&self.bytes, 8)
    }

    /// What changes with each writer: a child knows its parent by it.
    pub fn data_write(&self) -> &[u8] {
        &self.bytes[32..48]
    }

    /// The log's identity, if there is anything in it, and its place.
    pub fn log(&self) -> Option<([u8; 16], Region)> {
        let id: [u8; 16] = self.bytes[48..64].try_into().ok()?;
        let region = Region {
            offset: le64(&self.bytes, 72),
            len: le32(&self.bytes, 68).into(),
        };
        (id != [0; 16]).then_some((id, region))
    }

    /// Tell that the content changes from now on, and that the log is empty.
    pub fn renew(&mut self, file: &dyn Backend) -> io::Result<()> {
        let mut ids = [0u8; 32];
        // SAFETY: fills bytes of ours.
        if unsafe { libc::getrandom(ids.as_mut_ptr().cast(), ids.len(), 0) } != 32 {
            return Err(io::Error::last_os_error());
        }
        // Twice, so that both headers say the same.
        for _ in 0..2 {
            let sequence = self.sequence().wrapping_add(1);
            self.bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
            self.bytes[16..48].copy_from_slice(&ids);
            self.bytes[48..64].fill(0);
            let sum = checksum(&self.bytes);
            self.bytes[4..8].copy_from_slice(&sum.to_le_bytes());
            self.at = 1 - self.at;
            file.write(&[buffer(&self.bytes)], HEADERS[self.at])?;
            file.flush()?;
        }
        Ok(())
    }
}

/// The table of blocks, and the metadata.
pub(super) fn regions(file: &dyn Backend) -> io::Result<(Region, Region)> {
    for offset in REGION_TABLES {
        let bytes = read_exactly(file, offset, 64 * KIB as usize)?;
        if !bytes.starts_with(b"regi") || checksum(&bytes) != le32(&bytes, 4) {
            continue;
        }
        let count = le32(&bytes, 8).min(2047) as usize;
        let find = |wanted: &[u8; 16]| {
            let mut entries = bytes[16..].chunks_exact(32).take(count);
            let entry = entries.find(|entry| entry.starts_with(wanted));
            let region = entry.map(|entry| Region {
                offset: le64(entry, 16),
                len: le32(entry, 24).into(),
            });
            region
                .filter(|r| r.offset >= MIB && r.offset < 1 << 62)
                .ok_or_else(|| invalid("lacks one of its regions"))
        };
        let unknown = bytes[16..].chunks_exact(32).take(count).any(|entry| {
            le32(entry, 28) & 1 != 0 && !entry.starts_with(&BAT) && !entry.starts_with(&METADATA)
        });
        if unknown {
            return Err(unsupported("has a region of an unknown kind"));
        }
        return Ok((find(&BAT)?, find(&METADATA)?));
    }
    Err(invalid("both of its region tables are damaged"))
}

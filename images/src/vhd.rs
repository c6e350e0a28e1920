//! VHD: the disk image of Virtual PC and Azure, fixed or dynamic. From
//! Microsoft's "Virtual Hard Disk Image Format Specification", 1.0.
//!
//! A fixed image is the disk's bytes and a footer of one sector. A dynamic one
//! has a copy of the footer in front, a table of blocks, and in front of each
//! block a bitmap of the sectors that it has; the footer stays last. A differencing
//! one is a dynamic one that names its parent, which has the sectors that it has not.

mod parent;

use crate::backend::Backend;
use crate::bitmap;
use crate::blocks::{Blocks, Map, Source};
use crate::buffers::buffer;
use crate::concat::{Concat, Part};
use crate::format::Format;
use crate::neighbours::Neighbours;
use crate::pages::{be32, be64, invalid, read_exactly, Pages};
use crate::parents;
use std::io;
use std::sync::Arc;

const SECTOR: u64 = 512;
const UNUSED: u32 = u32::MAX;

/// Whether a sector is a footer: by its mark and its checksum.
pub(crate) fn is_footer(sector: &[u8]) -> bool {
    sector.len() == 512
        && sector.starts_with(b"conectix")
        && checksum(sector, 64) == be32(sector, 64)
}

/// Whether a sector is the footer of what is before it: so many bytes.
pub(crate) fn is_footer_of(sector: &[u8], before: u64) -> bool {
    const FIXED: u32 = 2;
    is_footer(sector) && (be32(sector, 60) != FIXED || be64(sector, 48) <= before)
}

/// The complement of the sum of all bytes but the checksum's own.
fn checksum(bytes: &[u8], at: usize) -> u32 {
    let sum = |bytes: &[u8]| bytes.iter().map(|b| u32::from(*b)).sum::<u32>();
    !(sum(bytes) - sum(&bytes[at..at + 4]))
}

/// Open a VHD that is in `file`.
pub(crate) fn open(
    file: Arc<dyn Backend>,
    write: bool,
    others: &Neighbours,
) -> io::Result<Arc<dyn Backend>> {
    let footer = footer(&*file)?;
    let size = be64(&footer, 48);
    match be32(&footer, 60) {
        2 => {
            if size > file.size() - SECTOR {
                return Err(invalid("is cut short: its footer claims a larger disk"));
            }
            let part = Part {
                len: size,
                from: Some((file, 0)),
            };
            Ok(Arc::new(Concat::new(vec![part], write)?))
        }
        3 => {
            let map = Dynamic::open(&*file, footer, size)?;
            Ok(Arc::new(Blocks::new(map, file, None, write)))
        }
        4 => {
            let header = dynamic_header(&*file, &footer)?;
            let paths = parent::paths(&*file, &header)?;
            let known = |parent: &dyn Backend| Ok(self::footer(parent)?[68..84] == header[40..56]);
            let below = parents::open(others, &paths, Format::Vhd, &known)?;
            let map = Dynamic::open(&*file, footer, size)?;
            Ok(Arc::new(Blocks::new(map, file, Some(below), write)))
        }
        other => Err(invalid(format!("has the unknown type {other}"))),
    }
}

fn footer(file: &dyn Backend) -> io::Result<Vec<u8>> {
    let head = read_exactly(file, 0, 512)?;
    let footer = match is_footer(&head) {
        true => head,
        false => read_exactly(file, file.size().saturating_sub(512), 512)?,
    };
    match is_footer(&footer) {
        true => Ok(footer),
        false => Err(invalid("its footer is damaged")),
    }
}

fn dynamic_header(file: &dyn Backend, footer: &[u8]) -> io::Result<Vec<u8>> {
    let header = read_exactly(file, be64(footer, 16), 1024)?;
    match header.starts_with(b"cxsparse") && checksum(&header, 36) == be32(&header, 36) {
        true => Ok(header),
        false => Err(invalid("its dynamic header is damaged")),
    }
}

struct Dynamic {
    size: u64,
    block: u64,
    /// Of the bitmap in front of each block, in bytes.
    bitmap: u64,
    table: u64,
    footer: Vec<u8>,
}

impl Dynamic {
    fn open(file: &dyn Backend, footer: Vec<u8>, size: u64) -> io::Result<Self> {
        let header = dynamic_header(file, &footer)?;
        let (table, entries) = (be64(&header, 16), be32(&header, 28));
        let block = u64::from(be32(&header, 32));
        if !block.is_power_of_two() || !(SECTOR..=1 << 30).contains(&block) {
            return Err(invalid(format!("has blocks of {block} bytes")));
        }
        if size.div_ceil(block) > entries.into() {
            return Err(invalid("has a table too short for its size"));
        }
        let end = table.checked_add(u64::from(entries) * 4);
        if end.is_none_or(|end| end > file.size()) {
            return Err(invalid("is cut short: its table is missing"));
        }
        Ok(Self {
            size,
            block,
            bitmap: (block / SECTOR).div_ceil(8).next_multiple_of(SECTOR),
            table,
            footer,
        })
    }

    fn entry(&self, pages: &Pages, index: u64, wait: bool) -> io::Result<u32> {
        let bytes = pages.get::<4>(self.table + 4 * index, wait)?;
        Ok(u32::from_be_bytes(bytes))
    }
}

impl Map for Dynamic {
    fn size(&self) -> u64 {
        self.size
    }

    fn block(&self) -> u64 {
        self.block
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let (index, within) = (offset / self.block, offset % self.block);
        let rest = self.block - within;
        let entry = self.entry(pages, index, wait)?;
        if entry == UNUSED {
            return Ok((Source::Absent, rest));
        }
        let at = u64::from(entry) * SECTOR;
        // Most significant bit first.
        let word = |index: u64| {
            let bits = pages.get::<8>(at + index * 8, wait)?;
            Ok(u64::from_be_bytes(bits).reverse_bits())
        };
        let (there, end) = bitmap::run(within / SECTOR, self.block / SECTOR, word)?;
        let run = (end * SECTOR - within).min(rest);
        Ok(match there {
            true => (Source::At(at + self.bitmap + within), run),
            false => (Source::Absent, run),
        })
    }

    /// A new block takes the footer's place.
    fn room(&self, end: u64) -> (u64, u64) {
        let start = (end - SECTOR).next_multiple_of(SECTOR);
        let data = start + self.bitmap;
        (data, data + self.block + SECTOR)
    }

    fn grown(&self, pages: &Pages, end: u64) -> io::Result<()> {
        // First the new footer: there is one whenever the power fails.
        pages.file.write(&[buffer(&self.footer)], end - SECTOR)?;
        // The old one is where the new block's bitmap will be.
        let old = end - SECTOR - self.block - self.bitmap;
        pages.put(old, &[0; SECTOR as usize])
    }

    fn record(&self, pages: &Pages, index: u64, at: u64) -> io::Result<()> {
        let start = at - self.bitmap;
        let sectors = self.block / SECTOR;
        let mut bitmap = vec![0; self.bitmap as usize];
        bitmap[..(sectors / 8) as usize].fill(0xff);
        if sectors < 8 {
            bitmap[0] = 0xff << (8 - sectors);
        }
        pages.put(start, &bitmap)?;
        let entry = u32::try_from(start / SECTOR).ok().filter(|e| *e != UNUSED);
        let entry = entry.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
        pages.put(self.table + 4 * index, &entry.to_be_bytes())
    }
}

//! VHDX: the disk image of Hyper-V and WSL. From Microsoft's "MS-VHDX: Virtual
//! Hard Disk v2 File Format".
//!
//! ```text
//! header.rs  the two headers, and the regions they lead to
//! log.rs     changes to the tables that a crash left behind
//! parent.rs  how a differencing image names what it is above
//! ```
//!
//! Tables of ours change a sector at a time and after what they name is durable,
//! so nothing of ours ever has to be logged.

mod header;
mod log;
mod parent;

use crate::backend::Backend;
use crate::bitmap;
use crate::blocks::{Blocks, Map, Source};
use crate::neighbours::Neighbours;
use crate::overlay::Overlay;
use crate::pages::{invalid, le32, le64, read_exactly, Pages};
use header::{Header, Region};
use std::io;
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;
/// States of a block, in the low bits of its entry.
const ZERO_STATES: std::ops::RangeInclusive<u64> = 1..=3;
const PRESENT: u64 = 6;
/// Some of its sectors; a bitmap says which.
const PARTIAL: u64 = 7;
/// The longest piece of metadata that is read, in bytes.
const LONGEST: usize = 1 << 20;

const FILE_PARAMETERS: [u8; 16] = guid(0xcaa16737, 0xfa36, 0x4d43, 0xb3b633f0aa44e76b);
const DISK_SIZE: [u8; 16] = guid(0x2fa54224, 0xcd1b, 0x4876, 0xb2115dbed83bf4b8);
const SECTOR_SIZE: [u8; 16] = guid(0x8141bf1d, 0xa96f, 0x4709, 0xba47f233a8faab5f);

/// As Microsoft writes one: the first three numbers little-endian.
const fn guid(a: u32, b: u16, c: u16, d: u64) -> [u8; 16] {
    let (a, b, c, d) = (
        a.to_le_bytes(),
        b.to_le_bytes(),
        c.to_le_bytes(),
        d.to_be_bytes(),
    );
    [
        a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], d[2], d[3], d[4], d[5], d[6],
        d[7],
    ]
}

/// Open a VHDX that is in `file`. What its log holds is brought into the file
/// when it is opened for writing, and into memory else.
pub(crate) fn open(
    file: Arc<dyn Backend>,
    write: bool,
    others: &Neighbours,
) -> io::Result<Arc<dyn Backend>> {
    let header = Header::read(&*file)?;
    // Who only looks for files reads no block; the log is for who is in a jail.
    let entries = match others.looks() {
        true => Vec::new(),
        false => log::entries(&*file, &header)?,
    };
    let file: Arc<dyn Backend> = match entries {
        entries if entries.is_empty() => file,
        entries if write => {
            let end = log::end(&entries)?;
            if end > file.size() {
                check_end(&file, &entries, end)?;
            }
            log::replay(&*file, &entries, end)?;
            file
        }
        entries => {
            let end = log::end(&entries)?;
            let shadow = Overlay::new(file);
            log::replay(&shadow, &entries, end)?;
            Arc::new(shadow)
        }
    };
    let map = Vhdx::open(&*file, header)?;
    let below = match map.has_parent {
        true => Some(parent::open(&*file, map.metadata, others)?),
        false => None,
    };
    Ok(Arc::new(Blocks::new(map, file, below, write)))
}

/// The log asks for a file that ends there, before anything of it is changed. Its disk may
/// have another size after the log than before.
fn check_end(file: &Arc<dyn Backend>, entries: &[log::Entry], end: u64) -> io::Result<()> {
    let after = Overlay::new(file.clone());
    log::apply(&after, entries)?;
    let most = Vhdx::open(&after, Header::read(&after)?)?.whole();
    // What is there already may be of no use to anybody.
    if end - file.size() > most {
        let text = format!("its log asks for a file of {end} bytes; all of its disk takes {most}");
        return Err(invalid(text));
    }
    Ok(())
}

/// A piece of the metadata, as far as it is this long.
fn item(
    file: &dyn Backend,
    metadata: Region,
    wanted: &[u8; 16],
    most: usize,
) -> io::Result<Vec<u8>> {
    let head = read_exactly(file, metadata.offset, 32)?;
    if !head.starts_with(b"metadata") {
        return Err(invalid("its metadata table is damaged"));
    }
    let count = u16::from_le_bytes([head[10], head[11]]).min(2047);
    let entries = read_exactly(file, metadata.offset + 32, 32 * usize::from(count))?;
    let entry = entries.chunks_exact(32).find(|e| e.starts_with(wanted));
    let entry = entry.ok_or_else(|| invalid("lacks a piece of metadata"))?;
    let len = (le32(entry, 20) as usize).min(most);
    read_exactly(file, metadata.offset + u64::from(le32(entry, 16)), len)
}

struct Vhdx {
    size: u64,
    block: u64,
    /// Entries of blocks between two entries of sector bitmaps.
    chunk: u64,
    /// In bytes.
    sector: u64,
    table: Region,
    metadata: Region,
    has_parent: bool,
    header: Mutex<Header>,
}

impl Vhdx {
    fn open(file: &dyn Backend, header: Header) -> io::Result<Self> {
        let (table, metadata) = header::regions(file)?;
        let item = |wanted: &[u8; 16], len: usize| {
            let bytes = item(file, metadata, wanted, len)?;
            match bytes.len() == len {
                true => Ok(bytes),
                false => Err(invalid("a piece of its metadata is too short")),
            }
        };
        let parameters = item(&FILE_PARAMETERS, 8)?;
        let block = u64::from(le32(&parameters, 0));
        if !block.is_power_of_two() || !(MIB..=256 * MIB).contains(&block) {
            return Err(invalid(format!("has blocks of {block} bytes")));
        }
        let size = le64(&item(&DISK_SIZE, 8)?, 0);
        let sector = u64::from(le32(&item(&SECTOR_SIZE, 4)?, 0));
        if sector != 512 && sector != 4096 {
            return Err(invalid(format!("has sectors of {sector} bytes")));
        }
        if size == 0 || size > 64 << 40 {
            return Err(invalid(format!("claims to hold {size} bytes")));
        }
        let vhdx = Self {
            size,
            block,
            chunk: (1 << 23) * sector / block,
            sector,
            table,
            metadata,
            has_parent: le32(&parameters, 4) & 2 != 0,
            header: Mutex::new(header),
        };
        let last = (size - 1) / block;
        let last = match vhdx.has_parent {
            true => vhdx.bitmap_place(last),
            false => vhdx.entry_place(last),
        };
        if last + 8 > table.offset + table.len {
            return Err(invalid("has a table too short for its size"));
        }
        Ok(vhdx)
    }

    /// What the file takes, beside its log, when every block and bitmap is there, in bytes.
    fn whole(&self) -> u64 {
        let blocks = self.size.div_ceil(self.block);
        let bitmaps = blocks.div_ceil(self.chunk);
        MIB + blocks * self.block + bitmaps * MIB + self.table.len + self.metadata.len
    }

    fn entry_place(&self, index: u64) -> u64 {
        self.table.offset + 8 * (index + index / self.chunk)
    }

    /// The entry of the bitmap of the chunk that a block is in, which comes last.
    fn bitmap_place(&self, index: u64) -> u64 {
        self.entry_place(index / self.chunk * self.chunk) + 8 * self.chunk
    }

    /// Whether the sector at `within` of a block that is there in part is there, and
    /// where that ends.
    fn part(&self, pages: &Pages, index: u64, within: u64, wait: bool) -> io::Result<(bool, u64)> {
        let entry = u64::from_le_bytes(pages.get(self.bitmap_place(index), wait)?);
        if entry & 7 != PRESENT {
            return Err(invalid("the bitmap of a block is missing"));
        }
        let sectors = self.block / self.sector;
        let start = index % self.chunk * sectors;
        let bitmap = (entry >> 20) * MIB;
        let word = |index: u64| Ok(u64::from_le_bytes(pages.get(bitmap + index * 8, wait)?));
        let first = start + within / self.sector;
        let (there, end) = bitmap::run(first, start + sectors, word)?;
        Ok((there, (end - start) * self.sector))
    }
}

impl Map for Vhdx {
    fn size(&self) -> u64 {
        self.size
    }

    fn block(&self) -> u64 {
        self.block
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let (index, within) = (offset / self.block, offset % self.block);
        let entry = u64::from_le_bytes(pages.get::<8>(self.entry_place(index), wait)?);
        let at = ((entry >> 20) * MIB).saturating_add(within);
        let place = match entry & 7 {
            0 => Source::Absent,
            PARTIAL if self.has_parent => {
                let (there, end) = self.part(pages, index, within, wait)?;
                let place = if there {
                    Source::At(at)
                } else {
                    Source::Absent
                };
                return Ok((place, end - within));
            }
            state if ZERO_STATES.contains(&state) => Source::Zero,
            PRESENT => Source::At(at),
            state => return Err(invalid(format!("a block is in the unknown state {state}"))),
        };
        Ok((place, self.block - within))
    }

    fn room(&self, end: u64) -> (u64, u64) {
        let at = end.next_multiple_of(MIB);
        (at, at + self.block)
    }

    /// Others that know the file by its identity shall see that it changed.
    fn begin(&self, pages: &Pages) -> io::Result<()> {
        let mut header = self.header.lock().unwrap_or_else(|e| e.into_inner());
        header.renew(&*pages.file)
    }

    fn record(&self, pages: &Pages, index: u64, at: u64) -> io::Result<()> {
        let entry = ((at / MIB) << 20) | PRESENT;
        pages.put(self.entry_place(index), &entry.to_le_bytes())
    }
}

//! DMG: Apple's disk images (UDIF), as they are shared: the disk in chunks that are
//! compressed one by one. The last sector of the file leads to a property list, which
//! has tables of the chunks. Apple has published no description; this is after what
//! 7-Zip, QEMU and "Demystifying the DMG file format" know. Only read.
//!
//! ```text
//! plist.rs   the tables, out of the property list
//! unpack.rs  a chunk
//! ```

mod plist;
mod unpack;

use crate::backend::Backend;
use crate::blocks::{read_only_map, Blocks, Map, Source};
use crate::kept::Kept;
use crate::pages::{be32, be64, invalid, read_exactly, unsupported, Pages};
use std::io;
use std::sync::Arc;
use unpack::{unpack, Packing};

const SECTOR: u64 = 512;
/// Longest property list that is read, in bytes.
const LONGEST_LIST: u64 = 64 << 20;
/// The longest chunk, unpacked, in bytes: a read of one byte unpacks all of it.
const LONGEST: u64 = 32 << 20;
/// Unpacked bytes that are kept.
const KEPT: usize = 16 << 20;

/// Whether a file's last sector is that of a DMG.
pub(crate) fn is_trailer(sector: &[u8]) -> bool {
    sector.len() == 512 && sector.starts_with(b"koly\0\0\0\x04\0\0\x02\0")
}

/// Open the DMG in `file`.
pub(crate) fn open(file: Arc<dyn Backend>) -> io::Result<Arc<dyn Backend>> {
    let map = Dmg::open(&*file)?;
    Ok(Arc::new(Blocks::new(map, file, None, false)))
}

/// Where a chunk's bytes are, all in bytes.
#[derive(Clone, Copy)]
struct Chunk {
    start: u64,
    len: u64,
    content: Content,
}

#[derive(Clone, Copy)]
enum Content {
    Zero,
    Plain { at: u64 },
    Packed { packing: Packing, at: u64, len: u64 },
}

struct Dmg {
    size: u64,
    /// By their start; what lies between them is zero.
    chunks: Vec<Chunk>,
    kept: Kept,
}

impl Dmg {
    fn open(file: &dyn Backend) -> io::Result<Self> {
        let trailer = read_exactly(file, file.size().saturating_sub(SECTOR), 512)?;
        if !is_trailer(&trailer) {
            return Err(invalid("is cut short: the last sector of a DMG is missing"));
        }
        if be32(&trailer, 60) > 1 {
            return Err(unsupported(
                "is in several segments (.dmgpart); join them first (hdiutil convert)",
            ));
        }
        let (list, len) = (be64(&trailer, 216), be64(&trailer, 224));
        if len == 0 {
            return Err(unsupported(
                "is of an old kind, without a property list; convert it with hdiutil convert",
            ));
        }
        if len > LONGEST_LIST {
            return Err(invalid("its property list is too long"));
        }
        let list = read_exactly(file, list, len as usize)?;
        let tables = plist::tables(&String::from_utf8_lossy(&list));
        let tables = tables.ok_or_else(|| invalid("its property list is damaged"))?;
        let data = be64(&trailer, 24);
        let mut chunks = Vec::new();
        for table in tables {
            read_table(&table, data, &mut chunks)?;
        }
        chunks.sort_by_key(|chunk| chunk.start);
        let overlap = |pair: &[Chunk]| pair[0].start + pair[0].len > pair[1].start;
        if chunks.windows(2).any(overlap) {
            return Err(invalid("its chunks overlap"));
        }
        let end = chunks.last().map_or(0, |chunk| chunk.start + chunk.len);
        let size = be64(&trailer, 492).saturating_mul(SECTOR);
        if size >= 1 << 62 || end > size {
            return Err(invalid("has chunks behind its end"));
        }
        Ok(Self {
            size,
            chunks,
            kept: Kept::new(KEPT),
        })
    }
}

/// Add what a table has; `data` is where the places in it start.
fn read_table(table: &[u8], data: u64, chunks: &mut Vec<Chunk>) -> io::Result<()> {
    let damaged = || invalid("a table of its chunks is damaged");
    let head = table.get(..204).filter(|head| head.starts_with(b"mish"));
    let head = head.ok_or_else(damaged)?;
    let (first, base, count) = (be64(head, 8), be64(head, 24), be32(head, 200) as usize);
    if (table.len() - 204) / 40 < count {
        return Err(damaged());
    }
    for entry in table[204..].chunks_exact(40).take(count) {
        let bytes = |sectors: u64| {
            let bytes = sectors.checked_mul(SECTOR);
            bytes.filter(|bytes| *bytes < 1 << 61).ok_or_else(damaged)
        };
        let start = bytes(first.checked_add(be64(entry, 8)).ok_or_else(damaged)?)?;
        let len = bytes(be64(entry, 16))?;
        let at = data.checked_add(base);
        let at = at.and_then(|at| at.checked_add(be64(entry, 24)));
        let (at, packed) = (at.ok_or_else(damaged)?, be64(entry, 32));
        let content = match be32(entry, 0) {
            // A comment, and the end.
            0x7fff_fffe | 0xffff_ffff => continue,
            0 | 2 => Content::Zero,
            1 if packed >= len => Content::Plain { at },
            1 => return Err(damaged()),
            kind => Content::Packed {
                packing: Packing::of(kind).ok_or_else(|| {
                    unsupported(format!("has chunks of the unknown kind {kind:#x}"))
                })?,
                at,
                len: packed,
            },
        };
        let is_packed = matches!(content, Content::Packed { .. });
        // What does not shrink grows by a little.
        if is_packed && (len > LONGEST || packed > LONGEST + LONGEST / 8) {
            return Err(unsupported("has chunks of more than 32 MiB"));
        }
        if len > 0 {
            chunks.push(Chunk {
                start,
                len,
                content,
            });
        }
    }
    Ok(())
}

impl Map for Dmg {
    fn size(&self) -> u64 {
        self.size
    }

    /// Chunks have any length: one block is all of them.
    fn block(&self) -> u64 {
        self.size.max(1)
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let after = self.chunks.partition_point(|chunk| chunk.start <= offset);
        let found = after
            .checked_sub(1)
            .map(|index| (index, self.chunks[index]));
        let inside = found.filter(|(_, chunk)| offset - chunk.start < chunk.len);
        let Some((index, chunk)) = inside else {
            let next = self.chunks.get(after).map_or(self.size, |next| next.start);
            return Ok((Source::Zero, next - offset));
        };
        let within = offset - chunk.start;
        let place = match chunk.content {
            Content::Zero => Source::Zero,
            Content::Plain { at } => Source::At(at.saturating_add(within)),
            Content::Packed { packing, at, len } => {
                let unpacked = chunk.len as usize;
                let unpack = || {
                    let packed = read_exactly(&*pages.file, at, len as usize)?;
                    unpack(packing, &packed, unpacked).map_err(|e| {
                        invalid(format!("the {packing} chunk at byte {at} is damaged: {e}"))
                    })
                };
                let bytes = self.kept.get(index as u64, unpacked, wait, unpack)?;
                Source::Unpacked(bytes, within as usize)
            }
        };
        Ok((place, chunk.len - within))
    }

    read_only_map!();
}

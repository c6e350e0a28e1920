//! qcow: the first version of QEMU's own format, which Xen had too. Two levels of
//! tables; clusters are plain, encrypted or compressed. Only read: QEMU itself advises to
//! convert what it finds of them.

use crate::backend::Backend;
use crate::blocks::{read_only_map, Blocks, Map, Source};
use crate::crypt::{Crypt, Encryption};
use crate::format::Format;
use crate::kept::Kept;
use crate::neighbours::Neighbours;
use crate::pages::{be32, be64, invalid, read_exactly, Pages};
use std::io::{self, Read};
use std::sync::Arc;

const COMPRESSED: u64 = 1 << 63;
/// Unpacked bytes that are kept.
const KEPT: usize = 4 << 20;
/// The longest name of a backing file, in bytes, as QEMU has it.
const LONGEST_NAME: u32 = 1023;

/// Open a qcow that is in `file`; `others` opens the file that it names.
pub(crate) fn open(file: Arc<dyn Backend>, others: &Neighbours) -> io::Result<Arc<dyn Backend>> {
    let (mut map, backing) = Qcow::open(&*file)?;
    if Encryption::of(&*file, Format::Qcow)?.is_some() {
        map.crypt = others.keys().map(Crypt::aes).transpose()?;
    }
    let below = backing.map(|name| others.open_parent(&name, None));
    let below = below.transpose()?;
    Ok(Arc::new(Blocks::new(map, file, below, false)))
}

struct Qcow {
    size: u64,
    cluster_bits: u32,
    /// Of the entries in a table of the second level.
    table_bits: u32,
    top: u64,
    crypt: Option<Crypt>,
    kept: Kept,
}

impl Qcow {
    /// With the name of the file below.
    fn open(file: &dyn Backend) -> io::Result<(Self, Option<String>)> {
        let header = read_exactly(file, 0, 48)?;
        if !header.starts_with(b"QFI\xfb\0\0\0\x01") {
            return Err(invalid(
                "its header is damaged: it lacks the mark of a qcow",
            ));
        }
        let (cluster_bits, table_bits) = (u32::from(header[32]), u32::from(header[33]));
        if !(9..=16).contains(&cluster_bits) || !(6..=13).contains(&table_bits) {
            return Err(invalid("has clusters or tables of an impossible size"));
        }
        let (size, top) = (be64(&header, 24), be64(&header, 40));
        let tables = size.div_ceil(1 << (cluster_bits + table_bits));
        let end = tables.checked_mul(8).and_then(|len| len.checked_add(top));
        if size >= 1 << 62 || end.is_none_or(|end| end > file.size()) {
            return Err(invalid("is cut short: its table is missing"));
        }
        let backing = match (be64(&header, 8), be32(&header, 16)) {
            (0, _) | (_, 0) => None,
            (_, len) if len > LONGEST_NAME => {
                return Err(invalid("names a backing file by too long a name"))
            }
            (at, len) => {
                let name = String::from_utf8(read_exactly(file, at, len as usize)?);
                Some(name.map_err(|_| invalid("names a backing file that is not UTF-8"))?)
            }
        };
        let map = Self {
            size,
            cluster_bits,
            table_bits,
            top,
            crypt: None,
            kept: Kept::new(KEPT),
        };
        Ok((map, backing))
    }

    fn unpack(&self, pages: &Pages, entry: u64) -> io::Result<Vec<u8>> {
        let low = 63 - self.cluster_bits;
        let (at, len) = (
            entry & ((1 << low) - 1),
            (entry & !COMPRESSED) >> low, // less than a cluster
        );
        let packed = read_exactly(&*pages.file, at, len as usize)?;
        let mut bytes = vec![0; 1 << self.cluster_bits];
        flate2::read::DeflateDecoder::new(&packed[..])
            .read_exact(&mut bytes)
            .map_err(|e| invalid(format!("a compressed cluster is damaged: {e}")))?;
        Ok(bytes)
    }
}

impl Map for Qcow {
    fn size(&self) -> u64 {
        self.size
    }

    fn block(&self) -> u64 {
        1 << self.cluster_bits
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let (index, within) = (offset >> self.cluster_bits, offset % self.block());
        let rest = self.block() - within;
        let at = self.top + 8 * (index >> self.table_bits);
        let table = u64::from_be_bytes(pages.get(at, wait)?);
        if table == 0 {
            return Ok((Source::Absent, rest));
        }
        let at = table.saturating_add(8 * (index & ((1 << self.table_bits) - 1)));
        let place = match u64::from_be_bytes(pages.get(at, wait)?) {
            0 => Source::Absent,
            entry if entry & COMPRESSED != 0 => {
                let len = self.block() as usize;
                let unpack = || self.unpack(pages, entry);
                let bytes = self.kept.get(entry, len, wait, unpack)?;
                Source::Unpacked(bytes, within as usize)
            }
            entry => Source::At(entry.saturating_add(within)),
        };
        Ok((place, rest))
    }

    fn crypt(&self) -> Option<&Crypt> {
        self.crypt.as_ref()
    }

    read_only_map!();
}

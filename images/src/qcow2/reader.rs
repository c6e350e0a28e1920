//! qcow2 images that imago (0.2.6) cannot read: with extended L2 entries, with clusters
//! compressed by zstd, or encrypted. Only read.

use super::Names;
use crate::backend::Backend;
use crate::blocks::{read_only_map, Blocks, Map, Source};
use crate::concat::{Concat, Part};
use crate::crypt::{Crypt, Encryption};
use crate::format::Format;
use crate::kept::Kept;
use crate::pages::{be32, be64, invalid, read_exactly, unsupported, Pages};
use crate::secrets::Secrets;
use std::io::{self, Read};
use std::sync::Arc;

// Incompatible features.
const DATA_FILE: u64 = 4;
const COMPRESSION: u64 = 8;
const EXTENDED: u64 = 16;
const KNOWN: u64 = 31;
// Extensions of the header.
const BACKING_FORMAT: u32 = 0xe279_2aca;
const DATA_FILE_NAME: u32 = 0x4441_5441;
const ENCRYPTION: u32 = 0x0537_be77;
/// How clusters are compressed.
const ZSTD: u8 = 1;
/// The place that an entry of either table has.
const PLACE: u64 = 0x00ff_ffff_ffff_fe00;
const COMPRESSED: u64 = 1 << 62;
/// The place counts, though it may be zero: with a file of data.
const COPIED: u64 = 1 << 63;
/// Parts of a cluster that an extended entry is about.
const PARTS: u64 = 32;
/// The longest name of a file, in bytes, as QEMU has it.
const LONGEST_NAME: u32 = 1023;
/// Unpacked bytes that are kept.
const KEPT: usize = 8 << 20;

/// An image whose names are known, and not yet what they mean.
pub(super) struct Reader {
    file: Arc<dyn Backend>,
    pub names: Names,
    pub needs_data_file: bool,
    /// Why imago does not do.
    pub why: &'static str,
    map: Clusters,
}

impl Reader {
    /// None: imago reads it. `keys`: how it is decrypted; without, what is in it is not
    /// asked for.
    pub fn of(file: &Arc<dyn Backend>, keys: Option<&Secrets>) -> io::Result<Option<Self>> {
        let head = Pages::new(file.clone()).get::<112>(0, true)?;
        let (version, bits) = (be32(&head, 4), be32(&head, 20));
        let features = if version >= 3 { be64(&head, 72) } else { 0 };
        let extended = features & EXTENDED != 0;
        let encryption = Encryption::of(&**file, Format::Qcow2)?;
        let why = match (encryption, features & (EXTENDED | COMPRESSION)) {
            (None, 0) => return Ok(None),
            (Some(_), _) => "is encrypted",
            (None, COMPRESSION) => "has zstd compressed clusters",
            (None, _) => "has extended L2 entries",
        };
        if version > 3 || features & !KNOWN != 0 {
            return Err(unsupported("has features that nobody knows"));
        }
        let zstd = features & COMPRESSION != 0;
        if zstd && (head[104] != ZSTD || be32(&head, 100) <= 104) {
            return Err(invalid("is compressed in a way that nobody knows"));
        }
        if !(if extended { 14..=21 } else { 9..=21 }).contains(&bits) {
            return Err(invalid("has clusters of an impossible size"));
        }
        let (size, top, entries) = (be64(&head, 24), be64(&head, 40), be32(&head, 36));
        let mut map = Clusters {
            size,
            bits,
            extended,
            zstd,
            top,
            file_len: file.size(),
            has_data: features & DATA_FILE != 0,
            crypt: None,
            kept: Kept::new(KEPT),
        };
        if size >= 1 << 62 || size.div_ceil(1 << (bits + map.table_bits())) > entries.into() {
            return Err(invalid("has a table too short for its size"));
        }
        if top.saturating_add(u64::from(entries) * 8) > file.size() {
            return Err(invalid("is cut short: its table is missing"));
        }
        let Extensions { names, luks } = extensions(&**file, &head)?;
        map.crypt = match (encryption, keys) {
            (Some(Encryption::Aes), Some(keys)) => Some(Crypt::aes(keys)?),
            (Some(Encryption::Luks), Some(keys)) => {
                let luks = luks.ok_or_else(|| invalid("lacks the place of its LUKS header"))?;
                Some(Crypt::luks(&**file, luks, map.start(), keys)?)
            }
            _ => None,
        };
        Ok(Some(Self {
            file: file.clone(),
            names,
            needs_data_file: map.has_data,
            why,
            map,
        }))
    }

    /// On what its names turned out to be.
    pub fn finish(
        self,
        backing: Option<Arc<dyn Backend>>,
        data: Option<Arc<dyn Backend>>,
    ) -> io::Result<Arc<dyn Backend>> {
        // Places in the file of data are those behind the image's own.
        let part = |file: Arc<dyn Backend>| Part {
            len: file.size(),
            from: Some((file, 0)),
        };
        let file = match data {
            None => self.file,
            Some(data) => Arc::new(Concat::new(vec![part(self.file), part(data)], false)?),
        };
        Ok(Arc::new(Blocks::new(self.map, file, backing, false)))
    }
}

/// What is behind the header's fields.
struct Extensions {
    names: Names,
    /// Where the LUKS header is, and its length.
    luks: Option<(u64, u64)>,
}

fn extensions(file: &dyn Backend, head: &[u8]) -> io::Result<Extensions> {
    let text = |at: u64, len: u32| -> io::Result<String> {
        if len > LONGEST_NAME {
            return Err(invalid("names a file by too long a name"));
        }
        let bytes = read_exactly(file, at, len as usize)?;
        String::from_utf8(bytes).map_err(|_| invalid("names a file that is not UTF-8"))
    };
    let mut names = Names {
        backing: match (be64(head, 8), be32(head, 16)) {
            (0, _) | (_, 0) => None,
            (at, len) => Some(text(at, len)?),
        },
        backing_format: None,
        data: None,
    };
    let mut luks = None;
    let mut at = match be32(head, 4) {
        0..3 => 72,
        _ => u64::from(be32(head, 100)),
    };
    // They end within the first cluster.
    let end = 1u64 << be32(head, 20);
    while at < end {
        let extension = read_exactly(file, at, 8)?;
        let (kind, len) = (be32(&extension, 0), be32(&extension, 4));
        match kind {
            0 => break,
            BACKING_FORMAT => names.backing_format = Some(text(at + 8, len)?),
            DATA_FILE_NAME => names.data = Some(text(at + 8, len)?),
            ENCRYPTION => {
                let place = read_exactly(file, at + 8, 16)?;
                luks = Some((be64(&place, 0), be64(&place, 8)));
            }
            _ => {}
        }
        at += 8 + u64::from(len).next_multiple_of(8);
    }
    Ok(Extensions { names, luks })
}

struct Clusters {
    size: u64,
    /// Of a cluster.
    bits: u32,
    extended: bool,
    zstd: bool,
    top: u64,
    /// Of the image itself, in bytes; what its places lead to is behind it if it has
    /// its data in another file.
    file_len: u64,
    has_data: bool,
    crypt: Option<Crypt>,
    kept: Kept,
}

impl Clusters {
    /// The place in all that is read from which on places are counted.
    fn start(&self) -> u64 {
        match self.has_data {
            true => self.file_len,
            false => 0,
        }
    }

    /// Of the entries in a table of the second level.
    fn table_bits(&self) -> u32 {
        self.bits - if self.extended { 4 } else { 3 }
    }

    fn unpack(&self, pages: &Pages, entry: u64) -> io::Result<Vec<u8>> {
        // The offset, then the sectors that it goes on for behind its own.
        let low = 62 - (self.bits - 8);
        let at = entry & ((1 << low) - 1);
        let sectors = (entry & (COMPRESSED - 1)) >> low;
        let end = ((at / 512 + sectors + 1) * 512).min(self.file_len);
        let packed = read_exactly(&*pages.file, at, end.saturating_sub(at) as usize)?;
        let mut bytes = vec![0; 1 << self.bits];
        // What lies behind it in its last sector is others'.
        let done = match self.zstd {
            true => zstd::stream::read::Decoder::with_buffer(&packed[..])
                .and_then(|stream| stream.single_frame().read_exact(&mut bytes)),
            false => flate2::read::DeflateDecoder::new(&packed[..]).read_exact(&mut bytes),
        };
        done.map_err(|e| invalid(format!("a compressed cluster is damaged: {e}")))?;
        Ok(bytes)
    }

    /// What an extended entry says of the part at `within`, and of those like it behind.
    fn part(&self, bitmap: u64, at: Option<u64>, within: u64) -> (Source, u64) {
        let part = (1 << self.bits) / PARTS;
        let kind = |number: u64| (bitmap >> number & 1, bitmap >> (PARTS + number) & 1);
        let first = within / part;
        let is_like = |number: &u64| kind(*number) == kind(first);
        let run = (first..PARTS).take_while(is_like).count() as u64;
        let place = match (kind(first), at) {
            ((_, 1), _) => Source::Zero,
            ((1, _), Some(at)) => Source::At(at + within),
            _ => Source::Absent,
        };
        (place, (first + run) * part - within)
    }
}

impl Map for Clusters {
    fn size(&self) -> u64 {
        self.size
    }

    fn block(&self) -> u64 {
        1 << self.bits
    }

    fn find(&self, pages: &Pages, offset: u64, wait: bool) -> io::Result<(Source, u64)> {
        let (index, within) = (offset >> self.bits, offset % self.block());
        let rest = self.block() - within;
        let tables = self.table_bits();
        let at = self.top + 8 * (index >> tables);
        let table = u64::from_be_bytes(pages.get(at, wait)?) & PLACE;
        if table == 0 {
            return Ok((Source::Absent, rest));
        }
        let len = if self.extended { 16 } else { 8 };
        let at = table + len * (index & ((1 << tables) - 1));
        let entry = u64::from_be_bytes(pages.get(at, wait)?);
        if entry & COMPRESSED != 0 {
            let unpack = || self.unpack(pages, entry);
            let len = self.block() as usize;
            let bytes = self.kept.get(entry, len, wait, unpack)?;
            return Ok((Source::Unpacked(bytes, within as usize), rest));
        }
        let place = match (entry & PLACE, self.has_data) {
            (0, true) if entry & COPIED != 0 => Some(self.file_len),
            (0, _) => None,
            (at, true) => Some(at + self.file_len),
            (at, false) => Some(at),
        };
        if self.extended {
            let bitmap = u64::from_be_bytes(pages.get(at + 8, wait)?);
            return Ok(self.part(bitmap, place, within));
        }
        let place = match place {
            _ if entry & 1 != 0 => Source::Zero,
            Some(at) => Source::At(at + within),
            None => Source::Absent,
        };
        Ok((place, rest))
    }

    fn crypt(&self) -> Option<&Crypt> {
        self.crypt.as_ref()
    }

    read_only_map!();
}

//! Names of file systems that do not keep them at a fixed place.
//!
//! Each follows its format's own specification from the first blocks to the
//! name: NTFS by the attribute $VOLUME_NAME of the file $Volume, exFAT by the
//! root directory (exFAT specification, 7.3), HFS+ by the first record of the
//! catalog (Technical Note 1150), UDF by the logical volume descriptor (ECMA-167,
//! 3/10.6). All of it may come from a hostile image: what makes no sense is no
//! name, every loop is bounded, and no read is larger than `PIECE`.

/// Reads this many bytes at this place of the device; None if they are not there.
pub(crate) type Read<'a> = &'a dyn Fn(u64, usize) -> Option<Vec<u8>>;

const PIECE: usize = 64 << 10;
/// How much of an exFAT root directory is searched: usually the name is first.
const DIRECTORY: u64 = 4 << 20;

fn le16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn le32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn le64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    le16(bytes, at).map(u16::swap_bytes)
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    le32(bytes, at).map(u32::swap_bytes)
}

/// UTF-16 up to a NUL; what is no text is replaced.
pub(crate) fn utf16(units: impl Iterator<Item = u16>) -> String {
    char::decode_utf16(units.take_while(|&unit| unit != 0))
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

fn utf16_le(bytes: &[u8]) -> String {
    let pairs = bytes.chunks_exact(2);
    utf16(pairs.map(|pair| u16::from_le_bytes([pair[0], pair[1]])))
}

fn utf16_be(bytes: &[u8]) -> String {
    let pairs = bytes.chunks_exact(2);
    utf16(pairs.map(|pair| u16::from_be_bytes([pair[0], pair[1]])))
}

/// A count of units, or (negative) the binary logarithm of a count of bytes.
fn ntfs_size(count: u8, unit: u64) -> Option<u64> {
    match count as i8 {
        n @ 1.. => Some(n as u64 * unit),
        n @ -31..=-1 => Some(1 << -n),
        _ => None,
    }
}

pub(crate) fn ntfs(read: Read) -> Option<String> {
    const VOLUME: u64 = 3;
    const VOLUME_NAME: u32 = 0x60;
    let boot = read(0, 512)?;
    let sector = u64::from(le16(&boot, 11)?);
    let cluster = ntfs_size(boot[13], sector)?;
    let size = ntfs_size(boot[0x40], cluster)?;
    let table = le64(&boot, 0x30)?.checked_mul(cluster)?;
    let size = usize::try_from(size).ok().filter(|&n| n <= PIECE)?;
    let mut record = read(table.checked_add(VOLUME * size as u64)?, size)?;
    if !record.starts_with(b"FILE") {
        return None;
    }
    // The last word of each half kilobyte is kept elsewhere.
    let fixups = usize::from(le16(&record, 4)?);
    for i in 1..usize::from(le16(&record, 6)?) {
        let word = le16(&record, fixups + 2 * i)?.to_le_bytes();
        record.get_mut(512 * i - 2..512 * i)?.copy_from_slice(&word);
    }
    let mut at = usize::from(le16(&record, 20)?);
    loop {
        let (kind, len) = (le32(&record, at)?, le32(&record, at + 4)? as usize);
        if kind == VOLUME_NAME {
            let value = at + usize::from(le16(&record, at + 20)?);
            let len = le32(&record, at + 16)? as usize;
            return Some(utf16_le(record.get(value..value.checked_add(len)?)?));
        }
        if kind > VOLUME_NAME || len < 16 {
            return None; // they are sorted
        }
        at = at.checked_add(len)?;
    }
}

pub(crate) fn exfat(read: Read) -> Option<String> {
    const END: u8 = 0;
    const LABEL: u8 = 0x83;
    let boot = read(0, 512)?;
    let (sector, cluster) = (u32::from(boot[108]), u32::from(boot[109]));
    if !(9..=12).contains(&sector) || sector + cluster > 25 {
        return None;
    }
    let size = 1u64 << (sector + cluster);
    let table = u64::from(le32(&boot, 80)?) << sector;
    let heap = u64::from(le32(&boot, 88)?) << sector;
    let mut cluster = le32(&boot, 96)?;
    let mut left = DIRECTORY;
    loop {
        let start = heap + u64::from(cluster.checked_sub(2)?) * size;
        let step = PIECE.min(size as usize);
        for at in (start..start + size).step_by(step) {
            for entry in read(at, step)?.chunks_exact(32) {
                match entry[0] {
                    END => return None,
                    LABEL => {
                        let units = usize::from(entry[1]).min(11);
                        return Some(utf16_le(&entry[2..2 + 2 * units]));
                    }
                    _ => {}
                }
            }
            left = left.checked_sub(step as u64)?;
        }
        cluster = le32(&read(table + 4 * u64::from(cluster), 4)?, 0)?;
    }
}

pub(crate) fn hfsplus(read: Read) -> Option<String> {
    const LEAF: u8 = 0xff;
    const PARENT_OF_ROOT: u32 = 1;
    const LENGTH: usize = 255;
    let header = read(1024, 512)?;
    let block = u64::from(be32(&header, 40)?);
    // Extents of the catalog, in blocks: start and count.
    let extents: Vec<(u64, u64)> = (0..8)
        .map_while(|i| {
            let extent = 288 + 8 * i;
            let (start, count) = (be32(&header, extent)?, be32(&header, extent + 4)?);
            Some((u64::from(start) * block, u64::from(count) * block))
        })
        .collect();
    let locate = |mut at: u64| {
        extents.iter().find_map(|&(start, len)| {
            let here = (at < len).then_some(start + at);
            at = at.saturating_sub(len);
            here
        })
    };
    let first = read(locate(0)?, 34)?;
    let (leaf, node) = (be32(&first, 24)?, be16(&first, 32)?);
    let place = locate(u64::from(leaf) * u64::from(node))?;
    // A descriptor of 14 bytes; then the first record, whose key is length,
    // parent and name.
    let node = read(place, 14 + 2 + 4 + 2 + 2 * LENGTH)?;
    if node[8] != LEAF || be32(&node, 16)? != PARENT_OF_ROOT {
        return None;
    }
    let units = usize::from(be16(&node, 20)?);
    Some(utf16_be(node.get(22..22 + 2 * units)?))
}

/// Of one inside a classic HFS, which says where it begins (Technical Note 1150).
pub(crate) fn wrapped_hfsplus(read: Read) -> Option<String> {
    let outer = read(1024, 162)?;
    let block = u64::from(be32(&outer, 20)?);
    let first = u64::from(be16(&outer, 28)?) * 512;
    let start = first + u64::from(be16(&outer, 126)?) * block;
    hfsplus(&|at, len| read(start.checked_add(at)?, len))
}

/// Whether the descriptor is there that says where the others are.
pub(crate) fn has_udf_anchor(read: Read) -> bool {
    let anchor = |block: u64| {
        let bytes = read(256 * block, 16)?;
        Some(le16(&bytes, 0)? == 2 && le32(&bytes, 12)? == 256)
    };
    [2048, 512, 4096, 1024]
        .into_iter()
        .any(|block| anchor(block) == Some(true))
}

pub(crate) fn udf(read: Read) -> Option<String> {
    [2048, 512, 4096, 1024]
        .into_iter()
        .find_map(|block| udf_with_blocks_of(read, block))
}

fn udf_with_blocks_of(read: Read, block: u64) -> Option<String> {
    const ANCHOR: u16 = 2;
    const LOGICAL_VOLUME: u16 = 6;
    const TERMINATOR: u16 = 8;
    const AT: u64 = 256;
    // The tag at the start of each descriptor says what and where it is.
    let descriptor = |at: u64| {
        let bytes = read(at.checked_mul(block)?, 512)?;
        (u64::from(le32(&bytes, 12)?) == at).then_some(bytes)
    };
    let anchor = descriptor(AT)?;
    if le16(&anchor, 0)? != ANCHOR {
        return None;
    }
    let (len, start) = (le32(&anchor, 16)?, le32(&anchor, 20)?);
    for i in 0..(u64::from(len) / block).min(64) {
        let found = descriptor(u64::from(start) + i)?;
        match le16(&found, 0)? {
            LOGICAL_VOLUME => return dstring(&found[84..84 + 128]),
            TERMINATOR => return None,
            _ => {}
        }
    }
    None
}

/// Text with its width in the first byte and its length in the last.
fn dstring(field: &[u8]) -> Option<String> {
    let (&len, text) = field.split_last()?;
    let text = text.get(1..usize::from(len))?;
    match field[0] {
        8 => Some(text.iter().map(|&byte| char::from(byte)).collect()),
        16 => Some(utf16_be(text)),
        _ => None,
    }
}

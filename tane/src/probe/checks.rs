//! What has to be so beside marks that are short, or that others have too.

use crate::label::{self, Read};

const SECTOR: u64 = 2048;
/// Where the descriptors of volumes begin, on CDs and what came after.
const DESCRIPTORS: u64 = 32 << 10;
/// More than any disc has.
const MOST_DESCRIPTORS: u64 = 64;

/// Alone, or beside an iso9660: then NSR is among the descriptors, and there is an
/// anchor too (ECMA-167, 2/8.3 and 3/10.2).
pub(super) fn is_udf(head: &[u8], read: Read) -> bool {
    let descriptor = |i: u64| -> Option<[u8; 5]> {
        let at = DESCRIPTORS + i * SECTOR + 1;
        let start = usize::try_from(at).ok()?;
        match head.get(start..start + 5) {
            Some(bytes) => bytes.try_into().ok(),
            None => read(at, 5)?.try_into().ok(),
        }
    };
    match descriptor(0).as_ref() {
        Some(b"BEA01") => return true,
        Some(b"CD001") => {}
        _ => return false,
    }
    for i in 1..MOST_DESCRIPTORS {
        match descriptor(i).as_ref() {
            Some(b"NSR02" | b"NSR03") => return label::has_udf_anchor(read),
            Some(b"CD001" | b"BEA01" | b"BOOT2" | b"CDW02" | b"TEA01") => {}
            _ => return false,
        }
    }
    false
}

/// Its blocks are of whole sectors (Inside Macintosh, Files, 2-60).
pub(super) fn is_hfs(head: &[u8], _: Read) -> bool {
    let size = head.get(1044..1048).and_then(|b| b.try_into().ok());
    size.map(u32::from_be_bytes)
        .is_some_and(|size| size > 0 && size.is_multiple_of(512))
}

/// Whatever its order of bytes, its type is a small number.
pub(super) fn is_sysv(head: &[u8], _: Read) -> bool {
    match head.get(0x3fc..0x400) {
        Some(&[low, 0, 0, high]) => (low == 0) != (high == 0) && low | high <= 0x30,
        _ => false,
    }
}

/// A boot block: its mark, and which of eight kinds.
pub(super) fn is_affs(head: &[u8], _: Read) -> bool {
    head.get(3).is_some_and(|kind| *kind < 8)
}

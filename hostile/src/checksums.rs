//! Checksums made right again after damage, so that it gets behind them. Only
//! what a short look can find; what is not found stays wrong, and is refused.

use crate::sparse::{Sparse, BLOCK};
use std::collections::BTreeSet;

/// Gets the image and the sectors that may have changed.
pub type Fixup = fn(&mut Sparse, &[u64]);

/// The starts of the blocks of this size that hold these sectors.
fn blocks(sectors: &[u64], size: u64) -> BTreeSet<u64> {
    sectors.iter().map(|at| at - at % size).collect()
}

/// CRC-32C with the four bytes of the checksum itself taken as zero.
fn crc32c_around(bytes: &mut [u8], at: usize) -> u32 {
    bytes[at..at + 4].fill(0);
    crc32c::crc32c(bytes)
}

/// fs/xfs/libxfs/xfs_format.h, xfs_da_format.h: magic number (big-endian), the
/// offset of the checksum, and whether the thing is as long as a sector.
const XFS: [(&[u8], u64, u64, bool); 19] = [
    (b"XFSB", 0, 224, true),
    (b"XAGF", 0, 216, true),
    (b"XAGI", 0, 312, true),
    (b"XAFL", 0, 32, true),
    (b"AB3B", 0, 52, false),
    (b"AB3C", 0, 52, false),
    (b"IAB3", 0, 52, false),
    (b"FIB3", 0, 52, false),
    (b"RMB3", 0, 52, false),
    (b"R3FC", 0, 52, false),
    (b"BMA3", 0, 64, false),
    (b"XDB3", 0, 4, false),
    (b"XDD3", 0, 4, false),
    (b"XDF3", 0, 4, false),
    (&[0x3d, 0xf1], 8, 12, false),
    (&[0x3d, 0xff], 8, 12, false),
    (&[0x3e, 0xbe], 8, 12, false),
    (&[0x3b, 0xee], 8, 12, false),
    (b"XSLM", 0, 12, false),
];

/// Of xfs.
pub fn xfs(image: &mut Sparse, sectors: &[u64]) {
    const INODE: u64 = 512; // mkfs.xfs's default
    const SECTOR: u64 = 512;
    for &at in sectors {
        let inode = image.vec(at, INODE);
        if inode.starts_with(b"IN") {
            seal_crc32c(image, at, INODE, 100);
        }
        for (magic, magic_at, crc, sector) in XFS {
            let found = image.vec(at + magic_at, magic.len() as u64);
            let size = if sector { SECTOR } else { BLOCK };
            if found == magic && at % size == 0 {
                seal_crc32c(image, at, size, crc);
            }
        }
    }
}

fn seal_crc32c(image: &mut Sparse, at: u64, size: u64, crc: u64) {
    let mut bytes = image.vec(at, size);
    let sum = crc32c_around(&mut bytes, crc as usize);
    image.write(at + crc, &sum.to_le_bytes());
}

/// fs/btrfs/tree-checker.h: a checksum of what follows it, at the start of a
/// superblock and of a node. A node knows its file system's UUID.
pub fn btrfs(image: &mut Sparse, sectors: &[u64]) {
    const SUPER: u64 = 64 << 10;
    const CSUM: u64 = 32;
    for at in [SUPER, 64 << 20] {
        let bytes = image.vec(at, 4096);
        if bytes[64..72] == *b"_BHRfS_M" {
            let sum = crc32c::crc32c(&bytes[CSUM as usize..]);
            image.write(at, &sum.to_le_bytes());
        }
    }
    let fsid = image.vec(SUPER + 32, 16);
    let size = u64::from(u32::from_le_bytes(image.bytes(SUPER + 0x94)));
    if !(4096..=65536).contains(&size) {
        return;
    }
    for at in blocks(sectors, size) {
        if at != SUPER && image.vec(at + 32, 16) == fsid {
            let sum = crc32c::crc32c(&image.vec(at + CSUM, size - CSUM));
            image.write(at, &sum.to_le_bytes());
        }
    }
}

/// fs/f2fs/f2fs.h: CRC-32 with a seed, not inverted, in the checkpoint's pages.
pub fn f2fs(image: &mut Sparse, _: &[u64]) {
    const SUPER: u64 = 1024;
    const SEED: u32 = 0xf2f5_2010;
    const CRC_AT: u64 = 4092;
    let first = u64::from(u32::from_le_bytes(image.bytes(SUPER + 0x50)));
    let segment = 512;
    for pack in [first, first + segment] {
        // The pack's pages that have a checksum are its first and its last.
        let at = pack * BLOCK;
        let pages = u64::from(u32::from_le_bytes(image.bytes(at + 0x88)));
        for page in [at, at + pages.saturating_sub(1).min(segment) * BLOCK] {
            let sum = crc32_raw(SEED, &image.vec(page, CRC_AT));
            image.write(page + CRC_AT, &sum.to_le_bytes());
        }
    }
}

/// crc32_le() of the kernel, which inverts nothing; lib/crc32.c.
fn crc32_raw(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |mut crc, &byte| {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(crc & 1));
        }
        crc
    })
}

/// fs/nilfs2: superblocks at 1 KiB and in the last block, segment summaries where
/// their magic number stands.
pub fn nilfs2(image: &mut Sparse, sectors: &[u64]) {
    const MAGIC: [u8; 2] = 0x3434u16.to_le_bytes();
    const SUM_MAGIC: [u8; 4] = 0x1eaf_fa11u32.to_le_bytes();
    let seed = u32::from_le_bytes(image.bytes(1024 + 12));
    let last = (image.len() / BLOCK).saturating_sub(1) * BLOCK;
    for at in [1024, last] {
        let size = u64::from(u16::from_le_bytes(image.bytes(at + 8)));
        if image.bytes(at + 6) == MAGIC && (24..=1024).contains(&size) {
            let mut bytes = image.vec(at, size);
            bytes[16..20].fill(0);
            let sum = crc32_raw(seed, &bytes);
            image.write(at + 16, &sum.to_le_bytes());
        }
    }
    for at in blocks(sectors, BLOCK) {
        // Checksum of the data, then of the summary, then the magic number.
        if image.bytes(at + 8) != SUM_MAGIC {
            continue;
        }
        let sumbytes = u64::from(u32::from_le_bytes(image.bytes(at + 44)));
        let nblocks = u64::from(u32::from_le_bytes(image.bytes(at + 36)));
        if (64..=1 << 16).contains(&sumbytes) && nblocks <= 64 {
            let sum = crc32_raw(seed, &image.vec(at + 8, sumbytes - 8));
            image.write(at + 4, &sum.to_le_bytes());
            let sum = crc32_raw(seed, &image.vec(at + 4, nblocks * BLOCK - 4));
            image.write(at, &sum.to_le_bytes());
        }
    }
}

/// The boot region's sum over its first eleven sectors: exFAT specification 3.4.
pub fn exfat(image: &mut Sparse, _: &[u64]) {
    const SECTOR: u64 = 512;
    for region in [0, 12 * SECTOR] {
        let bytes = image.vec(region, 11 * SECTOR);
        let counted = bytes.iter().enumerate();
        let counted = counted.filter(|(i, _)| ![106, 107, 112].contains(i));
        let sum = counted.fold(0u32, |sum, (_, &byte)| {
            sum.rotate_right(1).wrapping_add(u32::from(byte))
        });
        let sector = sum.to_le_bytes().repeat(SECTOR as usize / 4);
        image.write(region + 11 * SECTOR, &sector);
    }
}

/// Of udf512.
pub fn udf512(image: &mut Sparse, sectors: &[u64]) {
    udf(image, sectors, 512);
}

/// Of udf2048.
pub fn udf2048(image: &mut Sparse, sectors: &[u64]) {
    udf(image, sectors, 2048);
}

/// ECMA-167 3/7.2: a descriptor's CRC-16, then the sum of its tag's bytes.
fn udf(image: &mut Sparse, sectors: &[u64], size: u64) {
    for at in blocks(sectors, size) {
        let tag: [u8; 16] = image.bytes(at);
        let ident = u16::from_le_bytes([tag[0], tag[1]]);
        let len = u64::from(u16::from_le_bytes([tag[10], tag[11]]));
        if !matches!(ident, 1..=9 | 256..=266) || len > size - 16 {
            continue;
        }
        let crc = crc16_itu(&image.vec(at + 16, len));
        image.write(at + 8, &crc.to_le_bytes());
        let tag: [u8; 16] = image.bytes(at);
        let others = tag.iter().enumerate().filter(|(i, _)| *i != 4);
        let sum = others.fold(0u8, |sum, (_, &byte)| sum.wrapping_add(byte));
        image.write(at + 4, &[sum]);
    }
}

fn crc16_itu(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |mut crc, &byte| {
        crc ^= u16::from(byte) << 8;
        for _ in 0..8 {
            crc = (crc << 1) ^ if crc & 0x8000 != 0 { 0x1021 } else { 0 };
        }
        crc
    })
}

/// CRC-32C from the superblock to its block's end, not inverted at the end.
pub fn erofs(image: &mut Sparse, _: &[u64]) {
    const SUPER: u64 = 1024;
    let mut bytes = image.vec(SUPER, BLOCK - SUPER);
    let sum = !crc32c_around(&mut bytes, 4);
    image.write(SUPER + 4, &sum.to_le_bytes());
}

/// What makes images of this type right again, if they have checksums that hide damage.
pub fn of(fstype: &str) -> Option<Fixup> {
    Some(match fstype {
        "xfs" => xfs,
        "btrfs" => btrfs,
        "f2fs" => f2fs,
        "nilfs2" => nilfs2,
        "exfat" => exfat,
        "udf" => udf_of_any,
        "erofs" => erofs,
        _ => return None,
    })
}

/// Descriptors of blocks of either size.
fn udf_of_any(image: &mut Sparse, sectors: &[u64]) {
    udf(image, sectors, 512);
    udf(image, sectors, 2048);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standards() {
        // ECMA-167 3/7.2.6 and the catalogue of parametrised CRC algorithms.
        assert_eq!(crc16_itu(&[0x70, 0x6a, 0x77]), 0x3299);
        assert_eq!(!crc32_raw(!0, b"123456789"), 0xcbf4_3926);
    }
}

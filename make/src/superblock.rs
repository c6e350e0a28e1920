//! The superblock of an ext4 file system as its mkfs left it: who mounted it, where
//! and how often, and how much was written, is none of the image's content.
//!
//! Fields as in Documentation/filesystems/ext4/super.rst.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const START: u64 = 1024;
const SIZE: usize = 1024;
const MTIME: usize = 0x2c;
const WTIME: usize = 0x30;
const MOUNTS: usize = 0x34;
const MAGIC: usize = 0x38;
const LAST_CHECK: usize = 0x40;
const RO_COMPAT: usize = 0x64;
const LAST_MOUNTED: std::ops::Range<usize> = 0x88..0xc8;
const MKFS_TIME: usize = 0x108;
const KIB_WRITTEN: std::ops::Range<usize> = 0x178..0x180;
const WTIME_HIGH: usize = 0x274;
const MTIME_HIGH: usize = 0x275;
const MKFS_TIME_HIGH: usize = 0x276;
const LAST_CHECK_HIGH: usize = 0x277;
const CHECKSUM: usize = 0x3fc;
const METADATA_CSUM: u32 = 0x400;

/// Of an unmounted file system at `offset` of the file; `time` in seconds.
pub fn forget_mounts(file: &File, offset: u64, time: u64) -> io::Result<()> {
    let mut block = [0; SIZE];
    file.read_exact_at(&mut block, offset + START)?;
    if block[MAGIC..MAGIC + 2] != [0x53, 0xef] {
        return Err(io::Error::other("has no ext4 superblock"));
    }
    let low = (time as u32).to_le_bytes();
    let high = (time >> 32) as u8;
    for (at, high_at) in [
        (WTIME, WTIME_HIGH),
        (LAST_CHECK, LAST_CHECK_HIGH),
        (MKFS_TIME, MKFS_TIME_HIGH),
    ] {
        block[at..at + 4].copy_from_slice(&low);
        block[high_at] = high;
    }
    block[MTIME..MTIME + 4].fill(0);
    block[MTIME_HIGH] = 0;
    block[MOUNTS..MOUNTS + 2].fill(0);
    block[LAST_MOUNTED].fill(0);
    block[KIB_WRITTEN].fill(0);
    let features = &block[RO_COMPAT..RO_COMPAT + 4];
    let features = u32::from_le_bytes(features.try_into().unwrap_or_default());
    if features & METADATA_CSUM != 0 {
        let sum = !crc32c::crc32c(&block[..CHECKSUM]);
        block[CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
    }
    file.write_all_at(&block, offset + START)
}

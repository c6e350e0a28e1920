//! What chance, clocks and mounting leave in a file system, taken out again.

use super::plan::Identity;
use super::{btrfs, f2fs, superblock, xfs};
use std::fs::File;
use std::io;

/// Of a file system that its mkfs has just made and that fills the file; `time` in
/// seconds.
pub fn after_mkfs(kind: &str, file: &File, time: u64, identity: &Identity) -> io::Result<()> {
    match kind {
        "btrfs" => btrfs::set_identity(file, time, |name| identity.named(name)),
        "f2fs" => f2fs::forget_host(file),
        "xfs" => xfs::set_times(file, time),
        _ => Ok(()),
    }
}

/// Of one that was filled and unmounted, at `start` of the file.
pub fn after_mount(kind: &str, file: &File, start: u64, time: u64) -> io::Result<()> {
    match kind.starts_with("ext") {
        true => superblock::forget_mounts(file, start, time),
        false => Ok(()),
    }
}

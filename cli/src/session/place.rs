//! Where on the host a mounted file system has its bytes.

use std::path::Path;
use std::sync::Arc;
use tane::images::{Backend, HostRange};
use tane::{Disk, Mount};

/// The part of a disk that an ext2, ext3, ext4 or XFS file system lies on directly,
/// with nothing in between that moves, changes or checks its bytes, and that nobody
/// writes to.
pub struct Place {
    /// What stat says of files there.
    device: u64,
    /// On the disk, in bytes.
    start: u64,
    size: u64,
    disk: Arc<dyn Backend>,
}

impl Place {
    /// That of a mount of `device`. None: it is not like that.
    pub fn of(disk: &Disk, device: &Path, mount: &Mount) -> Option<Place> {
        let fs = mount.statfs().ok()?;
        // Where their files lie, FIEMAP tells in bytes of the device. XFS has a second
        // device only if a mount option names it, and none of ours does.
        let kinds = [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC];
        if !kinds.contains(&(fs.magic as i64)) || !fs.read_only {
            return None;
        }
        let (start, size) = if device == disk.device() {
            (0, disk.size().ok()?)
        } else {
            let partitions = disk.partitions().ok()?;
            let found = partitions.iter().find(|p| p.device() == device)?;
            (found.start, found.size)
        };
        Some(Place {
            device: mount.metadata("/").ok()?.dev(),
            start,
            size,
            disk: disk.backend().clone(),
        })
    }

    pub fn host_range(&self, device: u64, offset: u64, len: u64) -> Option<HostRange> {
        let end = offset.checked_add(len)?;
        if device != self.device || end > self.size {
            return None;
        }
        self.disk.host_range(self.start.checked_add(offset)?, len)
    }
}

//! Where on the host a mounted file system has its bytes.

use std::path::Path;
use std::sync::Arc;
use tane::images::{Backend, HostRange};
use tane::{Disk, Mount};

/// The part of a disk that an ext2, ext3 or ext4 file system lies on directly,
/// with nothing in between that moves or changes its bytes, and that nobody
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
        if fs.magic != libc::EXT4_SUPER_MAGIC as u64 || !fs.read_only {
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

//! Where on the host a mounted file system has its bytes.

use crate::disk::Disk;
use crate::extents::{sole_extent, Extents};
use crate::flags::{FSXATTR, FS_IOC_FSGETXATTR, FS_IOC_GETFLAGS};
use crate::kernel::Kernel;
use crate::sys::SysResult;
use crate::tree::Tree;
use std::path::Path;
use std::sync::Arc;
use tane_images::{Backend, HostRange};

// linux/fs.h
const ENCRYPT: u32 = 0x800;
const VERITY: u32 = 0x10_0000;
const INLINE_DATA: u32 = 0x1000_0000;
/// Of struct fsxattr: the data is on XFS's realtime device.
const REALTIME: u32 = 0x1;

/// The part of a disk that an ext2, ext3, ext4 or XFS file system lies on directly,
/// with nothing in between that moves, changes or checks its bytes, and that nobody
/// writes to: what is in its files can then be read from the image's file by the host,
/// past every cache of the kernel. [`Mount::place`](crate::Mount::place) has it.
///
/// Files are named by descriptors of the kernel; they must be of this file system.
pub struct Place {
    kernel: Kernel,
    /// What stat says of files there.
    device: u64,
    /// On the disk, in bytes.
    start: u64,
    size: u64,
    disk: Arc<dyn Backend>,
}

impl Place {
    /// That of a mount of `device`, which is on a disk. None: it is not like that.
    pub(crate) fn of(disk: &Disk, device: &Path, tree: &Tree) -> Option<Place> {
        let fs = tree.statfs().ok()?;
        // Where their files lie, FIEMAP tells in bytes of the device.
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
        let place = Place {
            kernel: tree.kernel().clone(),
            device: tree.metadata("/").ok()?.dev(),
            start,
            size,
            disk: disk.backend().clone(),
        };
        // No bytes at all: a question about the disk.
        place.range(0, 0)?;
        Some(place)
    }

    /// What [`Metadata::dev`](crate::Metadata::dev) says of the files that are meant.
    pub fn device(&self) -> u64 {
        self.device
    }

    /// Where the host has `len` bytes at `offset` of the device that the file system
    /// is on; see [`Backend::host_range`].
    pub fn range(&self, offset: u64, len: u64) -> Option<HostRange> {
        let end = offset.checked_add(len)?;
        if end > self.size {
            return None;
        }
        self.disk.host_range(self.start.checked_add(offset)?, len)
    }

    /// Whether a read of an open file gives what is in its blocks on the file system's
    /// main device, as it is there: nothing is decrypted, checked by fs-verity or kept
    /// in the inode. `flags` and `xflags` are what FS_IOC_GETFLAGS and
    /// FS_IOC_FSGETXATTR say of it.
    pub fn is_plain(flags: u32, xflags: u32) -> bool {
        flags & (ENCRYPT | VERITY | INLINE_DATA) == 0 && xflags & REALTIME == 0
    }

    /// The same, of a file that nobody has asked about yet.
    pub(crate) fn has_plain(&self, file: i32) -> bool {
        let flags = || -> SysResult<_> {
            // The kernel writes an int, whatever the number of the call says.
            let (mut flags, mut attributes) = (0u64, [0u32; FSXATTR]);
            self.kernel.ioctl_with(file, FS_IOC_GETFLAGS, &mut flags)?;
            self.kernel
                .ioctl_with(file, FS_IOC_FSGETXATTR, &mut attributes)?;
            Ok((flags as u32, attributes[0]))
        };
        flags().is_ok_and(|(flags, xflags)| Place::is_plain(flags, xflags))
    }

    /// Where the host has the first `size` bytes of a plain file, if it has them in
    /// one piece.
    pub fn whole(&self, file: i32, size: u64) -> Option<HostRange> {
        self.range(sole_extent(&self.kernel, file, size)?, size)
    }

    /// The extents of the first `end` bytes of a file. What the file system has not
    /// written yet it writes first.
    pub fn extents(&self, file: i32, end: u64) -> Extents {
        Extents::of(&self.kernel, file, end)
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Place({} bytes from {})", self.size, self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reading_changes_or_finds_elsewhere_is_not_plain() {
        assert!(Place::is_plain(0, 0));
        // Extents, indexed: how a file is stored says nothing about its bytes.
        assert!(Place::is_plain(0x8_1000, 0x2));
        for flags in [ENCRYPT, VERITY, INLINE_DATA] {
            assert!(!Place::is_plain(flags | 0x8_0000, 0), "{flags:#x}");
        }
        assert!(!Place::is_plain(0, REALTIME));
    }
}

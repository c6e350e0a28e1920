//! Where on the host a mounted file system has its bytes.

use crate::disk::Disk;
use crate::extents::Extents;
use crate::kernel::Kernel;
use crate::tree::Tree;
use std::path::Path;
use std::sync::Arc;
use tane_images::{Backend, HostRange};
use tane_linux::{is_plain, sole_extent, Descriptor};

/// The part of a disk that an ext2, ext3, ext4 or XFS file system lies on directly,
/// with nothing in between that moves, changes or checks its bytes, and that nobody
/// writes to: what is in its files can then be read from the image's file by the host,
/// past every cache of the kernel. [`Mount::host_blocks`](crate::Mount::host_blocks) has it.
///
/// Files are named by descriptors of the kernel; they must be of this file system.
pub struct HostBlocks {
    kernel: Kernel,
    /// What stat says of files there.
    device: u64,
    /// On the disk, in bytes.
    start: u64,
    size: u64,
    disk: Arc<dyn Backend>,
}

impl HostBlocks {
    /// That of a mount of `device`, which is on a disk. None: it is not like that.
    pub(crate) fn of(disk: &Disk, device: &Path, tree: &Tree) -> Option<HostBlocks> {
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
        let blocks = HostBlocks {
            kernel: tree.kernel().clone(),
            device: tree.metadata("/").ok()?.dev(),
            start,
            size,
            disk: disk.backend().clone(),
        };
        // No bytes at all: a question about the disk.
        blocks.range(0, 0)?;
        Some(blocks)
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

    /// Whether a read of an open file gives what is in its blocks, as it is there.
    pub(crate) fn has_plain(&self, file: impl Descriptor) -> bool {
        let sys = self.kernel.sys();
        let found = sys
            .flags(&file)
            .and_then(|flags| Ok((flags, sys.fsxattr(&file)?)));
        found.is_ok_and(|(flags, attributes)| is_plain(flags, attributes.xflags))
    }

    /// Where the host has the first `size` bytes of a plain file, if it has them in
    /// one piece.
    pub fn whole(&self, file: impl Descriptor, size: u64) -> Option<HostRange> {
        self.range(sole_extent(self.kernel.sys(), file, size)?, size)
    }

    /// The extents of the first `end` bytes of a file. What the file system has not
    /// written yet it writes first.
    pub fn extents<D: Descriptor>(&self, file: D, end: u64) -> Extents<D> {
        Extents::of(&self.kernel, file, end)
    }
}

impl std::fmt::Debug for HostBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostBlocks({} bytes from {})", self.size, self.start)
    }
}

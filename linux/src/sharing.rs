//! Blocks that several files have in common: reflinks.

use crate::errno::{Errno, Result};
use crate::{Descriptor, Fd, Linux, Sys};

// linux/magic.h, and those that keep theirs for themselves.
const XFS: i64 = 0x5846_5342;
const BTRFS: i64 = 0x9123_683e;
const OCFS2: i64 = 0x7461_636f;
const BCACHEFS: i64 = 0xca45_1a4e;
const OVERLAY: i64 = 0x794c_7630;
/// btrfs: the inode number of a subvolume's root.
const SUBVOLUME: u64 = 256;

// linux/fs.h
const FICLONE: u32 = 0x4004_9409;
const FIDEDUPERANGE: u32 = 0xc018_9436;
const DIFFERS: i32 = 1;

/// struct file_dedupe_range for one other file.
#[repr(C)]
struct Dedupe {
    from: u64,
    length: u64,
    count: u16,
    reserved: [u16; 3],
    fd: i64,
    to: u64,
    done: u64,
    status: i32,
    more_reserved: u32,
}

fn kind(fd: &Fd) -> Option<i64> {
    fd.sys().fstatfs(fd).ok().map(|found| found.fstype)
}

/// Whether files of this one's file system can have blocks in common.
pub fn can_share(fd: &Fd) -> bool {
    kind(fd).is_some_and(|kind| [XFS, BTRFS, OCFS2, BCACHEFS, OVERLAY].contains(&kind))
}

/// Whether a directory with this inode number is the root of a subvolume.
pub fn is_subvolume(dir: &Fd, inode: u64) -> bool {
    inode == SUBVOLUME && kind(dir) == Some(BTRFS)
}

impl<L: Linux + ?Sized> Sys<'_, L> {
    /// Gives `to`, a file of the same file system, the blocks of `from`.
    pub fn clone_file(self, from: impl Descriptor, to: impl Descriptor) -> Result<()> {
        self.ioctl_fd(to, FICLONE, from)
    }

    /// Has a part of `to` lie in the blocks of `from`, if the two are equal: Linux
    /// compares them. ESTALE if they differ.
    pub fn share(
        self,
        (from, mut at): (impl Descriptor, u64),
        (to, mut position): (impl Descriptor, u64),
        length: u64,
    ) -> Result<()> {
        let end = at.saturating_add(length);
        while at < end {
            let mut data = Dedupe {
                from: at,
                length: end - at,
                count: 1,
                reserved: [0; 3],
                fd: to.raw().into(),
                to: position,
                done: 0,
                status: 0,
                more_reserved: 0,
            };
            self.ioctl(&from, FIDEDUPERANGE, &mut data)?;
            match data.status {
                // It does so much at once.
                0 if data.done > end - at => return Err(Errno(libc::EIO)),
                0 if data.done > 0 => {}
                0 => return Err(Errno(libc::EINVAL)),
                DIFFERS => return Err(Errno(libc::ESTALE)),
                error => return Err(Errno(-error)),
            }
            at += data.done;
            position += data.done;
        }
        Ok(())
    }
}

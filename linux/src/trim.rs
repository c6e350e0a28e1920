//! Giving free space back to the disk.

use crate::errno::Result;
use crate::Fd;

// linux/fs.h
const FITRIM: u32 = 0xc018_5879;

/// linux/fs.h's struct fstrim_range.
#[repr(C)]
struct Range {
    start: u64,
    len: u64,
    minlen: u64,
}

/// Discards the free space of the file system that `fd` is on, in extents of at
/// least `minimum` bytes. The bytes it was told to discard: not always all that
/// are free, and not those that this mount has discarded before.
pub fn trim(fd: &Fd, minimum: u64) -> Result<u64> {
    let mut range = Range {
        start: 0,
        len: u64::MAX,
        minlen: minimum,
    };
    fd.sys().ioctl(fd, FITRIM, &mut range)?;
    Ok(range.len)
}

//! How full a file system is.

use tane_linux::RawStatFs;

/// What fstatfs(2) says. Sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct StatFs {
    /// The file system's magic number, `libc::EXT4_SUPER_MAGIC` and so on.
    pub magic: u64,
    /// What the file system gives space by.
    pub block_size: u64,
    /// The file system's size.
    pub total: u64,
    /// Unused space.
    pub free: u64,
    /// Unused space that is not reserved for root.
    pub available: u64,
    /// Inodes; 0 if the file system does not count them.
    pub files: u64,
    /// How many more there can be.
    pub files_free: u64,
    /// Bytes a name may have.
    pub name_max: u64,
    /// ST_RDONLY: mounted so.
    pub read_only: bool,
}

impl StatFs {
    pub(crate) fn new(s: &RawStatFs) -> Self {
        let unit = if s.frsize > 0 { s.frsize } else { s.bsize } as u64;
        StatFs {
            magic: s.fstype as u64,
            block_size: s.bsize as u64,
            total: s.blocks.saturating_mul(unit),
            free: s.bfree.saturating_mul(unit),
            available: s.bavail.saturating_mul(unit),
            files: s.files,
            files_free: s.ffree,
            name_max: s.namelen as u64,
            read_only: s.flags as u64 & libc::ST_RDONLY != 0,
        }
    }
}

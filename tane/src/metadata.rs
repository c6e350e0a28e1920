//! What statx(2) says about a file.

use crate::time::Timestamp;
use std::time::SystemTime;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileType {
    /// S_IFREG.
    File,
    /// S_IFDIR.
    Dir,
    /// S_IFLNK.
    Symlink,
    /// S_IFBLK.
    BlockDevice,
    /// S_IFCHR.
    CharDevice,
    /// S_IFIFO.
    Fifo,
    /// S_IFSOCK.
    Socket,
    /// Something Linux did not have when this was written.
    Unknown,
}

impl FileType {
    pub(crate) fn from_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFREG => Self::File,
            libc::S_IFDIR => Self::Dir,
            libc::S_IFLNK => Self::Symlink,
            libc::S_IFBLK => Self::BlockDevice,
            libc::S_IFCHR => Self::CharDevice,
            libc::S_IFIFO => Self::Fifo,
            libc::S_IFSOCK => Self::Socket,
            _ => Self::Unknown,
        }
    }

    /// The type of a directory entry; None if the file system does not say.
    pub(crate) fn from_dirent(kind: u8) -> Option<Self> {
        match kind {
            libc::DT_UNKNOWN => None,
            kind => Some(Self::from_mode(u32::from(kind) << 12)),
        }
    }

    /// A regular file.
    pub fn is_file(self) -> bool {
        self == Self::File
    }

    /// A directory.
    pub fn is_dir(self) -> bool {
        self == Self::Dir
    }

    /// A symbolic link.
    pub fn is_symlink(self) -> bool {
        self == Self::Symlink
    }

    /// A block or character device.
    pub fn is_device(self) -> bool {
        matches!(self, Self::BlockDevice | Self::CharDevice)
    }
}

/// What is known about a file.
#[derive(Clone)]
pub struct Metadata(libc::statx);

impl Metadata {
    pub(crate) fn new(statx: libc::statx) -> Self {
        Metadata(statx)
    }

    /// Which kind of file it is.
    pub fn file_type(&self) -> FileType {
        FileType::from_mode(u32::from(self.0.stx_mode))
    }

    /// A regular file.
    pub fn is_file(&self) -> bool {
        self.file_type().is_file()
    }

    /// A directory.
    pub fn is_dir(&self) -> bool {
        self.file_type().is_dir()
    }

    /// A symbolic link.
    pub fn is_symlink(&self) -> bool {
        self.file_type().is_symlink()
    }

    /// Bytes of content; of a symlink, of its target.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.0.stx_size
    }

    /// File type and permission bits, as in `st_mode`.
    pub fn mode(&self) -> u32 {
        u32::from(self.0.stx_mode)
    }

    /// The permission bits alone, with set-uid, set-gid and sticky: 0 to 0o7777.
    pub fn permissions(&self) -> u32 {
        self.mode() & 0o7777
    }

    /// The owner.
    pub fn uid(&self) -> u32 {
        self.0.stx_uid
    }

    /// The group.
    pub fn gid(&self) -> u32 {
        self.0.stx_gid
    }

    /// The inode number. Together with [`Self::dev`] it names the file.
    pub fn ino(&self) -> u64 {
        self.0.stx_ino
    }

    /// The number of names this file has.
    pub fn nlink(&self) -> u32 {
        self.0.stx_nlink
    }

    /// The device of the file system, for `libc::major` and `libc::minor`.
    pub fn dev(&self) -> u64 {
        libc::makedev(self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    /// Of a device node, the device it stands for.
    pub fn rdev(&self) -> u64 {
        libc::makedev(self.0.stx_rdev_major, self.0.stx_rdev_minor)
    }

    /// Space taken, in units of 512 bytes; less than the length says for a file
    /// with holes.
    pub fn blocks(&self) -> u64 {
        self.0.stx_blocks
    }

    /// The preferred size of reads and writes, in bytes.
    pub fn blksize(&self) -> u32 {
        self.0.stx_blksize
    }

    /// When it was last read.
    pub fn atime(&self) -> Timestamp {
        timestamp(&self.0.stx_atime)
    }

    /// When its content last changed.
    pub fn mtime(&self) -> Timestamp {
        timestamp(&self.0.stx_mtime)
    }

    /// The last change of content or metadata.
    pub fn ctime(&self) -> Timestamp {
        timestamp(&self.0.stx_ctime)
    }

    /// When the file came into being, if the file system remembers.
    pub fn btime(&self) -> Option<Timestamp> {
        let known = self.0.stx_mask & libc::STATX_BTIME != 0;
        known.then(|| timestamp(&self.0.stx_btime))
    }

    /// [`Self::mtime`] as the standard library has it.
    pub fn modified(&self) -> SystemTime {
        self.mtime().into()
    }

    /// [`Self::atime`] as the standard library has it.
    pub fn accessed(&self) -> SystemTime {
        self.atime().into()
    }

    /// [`Self::btime`] as the standard library has it.
    pub fn created(&self) -> Option<SystemTime> {
        self.btime().map(Into::into)
    }

    /// The `STATX_ATTR_` bits that are set, such as immutable and append-only.
    pub fn attributes(&self) -> u64 {
        self.0.stx_attributes & self.0.stx_attributes_mask
    }

    /// The structure itself.
    pub fn statx(&self) -> &libc::statx {
        &self.0
    }
}

impl std::fmt::Debug for Metadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metadata")
            .field("file_type", &self.file_type())
            .field("permissions", &format_args!("{:#o}", self.permissions()))
            .field("uid", &self.uid())
            .field("gid", &self.gid())
            .field("len", &self.len())
            .field("ino", &self.ino())
            .field("mtime", &self.mtime())
            .finish_non_exhaustive()
    }
}

fn timestamp(time: &libc::statx_timestamp) -> Timestamp {
    Timestamp {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec,
    }
}

//! What stat(2) tells about a file.

use super::Flags;

/// The seven kinds of file.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

impl Kind {
    /// That of a mode, by its S_IFMT.
    pub fn from_mode(mode: u32) -> Kind {
        match mode & libc::S_IFMT {
            libc::S_IFDIR => Kind::Directory,
            libc::S_IFLNK => Kind::Symlink,
            libc::S_IFIFO => Kind::Fifo,
            libc::S_IFSOCK => Kind::Socket,
            libc::S_IFCHR => Kind::CharDevice,
            libc::S_IFBLK => Kind::BlockDevice,
            _ => Kind::File,
        }
    }

    /// From a directory entry's d_type, if the file system fills it in.
    pub fn from_dirent(d_type: u8) -> Option<Kind> {
        Some(match d_type {
            libc::DT_REG => Kind::File,
            libc::DT_DIR => Kind::Directory,
            libc::DT_LNK => Kind::Symlink,
            libc::DT_FIFO => Kind::Fifo,
            libc::DT_SOCK => Kind::Socket,
            libc::DT_CHR => Kind::CharDevice,
            libc::DT_BLK => Kind::BlockDevice,
            _ => return None,
        })
    }

    /// The letter ls -l and find -type use.
    pub fn letter(self) -> char {
        match self {
            Kind::File => 'f',
            Kind::Directory => 'd',
            Kind::Symlink => 'l',
            Kind::Fifo => 'p',
            Kind::Socket => 's',
            Kind::CharDevice => 'c',
            Kind::BlockDevice => 'b',
        }
    }

    /// The word stat(1) and the JSON output use.
    pub fn word(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Directory => "directory",
            Kind::Symlink => "symlink",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
            Kind::CharDevice => "character device",
            Kind::BlockDevice => "block device",
        }
    }

    /// Whether it is a device node.
    pub fn is_device(self) -> bool {
        matches!(self, Kind::CharDevice | Kind::BlockDevice)
    }
}

/// A point in time: seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Time {
    /// Since 1970; negative before.
    pub sec: i64,
    /// Below a thousand million.
    pub nsec: u32,
}

/// struct stat of stat(2), and what chattr(1) set.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub mode: u32,
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: u64,
    pub block_size: u64,
    /// Allocated 512-byte blocks.
    pub blocks: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// Not stat's: none until somebody asks for them.
    pub flags: Flags,
}

impl Stat {
    /// Of which kind the file is.
    pub fn kind(&self) -> Kind {
        Kind::from_mode(self.mode)
    }

    /// Bytes of data, as far as is known without reading: holes are not.
    pub fn data(&self) -> u64 {
        self.size.min(self.blocks.saturating_mul(512))
    }

    /// Permission bits with set-user-ID, set-group-ID and sticky.
    pub fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }

    /// What tells two files apart within one kernel.
    pub fn identity(&self) -> (u64, u64) {
        (self.dev, self.ino)
    }
}

impl From<libc::stat> for Stat {
    fn from(s: libc::stat) -> Self {
        let time = |sec, nsec| Time {
            sec,
            nsec: nsec as u32,
        };
        Stat {
            dev: s.st_dev,
            ino: s.st_ino,
            mode: s.st_mode,
            nlink: s.st_nlink,
            uid: s.st_uid,
            gid: s.st_gid,
            rdev: s.st_rdev,
            size: s.st_size as u64,
            block_size: s.st_blksize as u64,
            blocks: s.st_blocks as u64,
            atime: time(s.st_atime, s.st_atime_nsec),
            mtime: time(s.st_mtime, s.st_mtime_nsec),
            ctime: time(s.st_ctime, s.st_ctime_nsec),
            flags: Flags::default(),
        }
    }
}

//! What chattr(1) sets: the flags of an inode, and the project it is counted for.

use super::errno::{Errno, Result};
use super::Fd;

// linux/fs.h
const FS_IOC_GETFLAGS: u32 = 0x8008_6601;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_FSGETXATTR: u32 = 0x801c_581f;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const COMPR: u32 = 0x4;
const IMMUTABLE: u32 = 0x10;
const APPEND: u32 = 0x20;
const NOCOW: u32 = 0x80_0000;
const CASEFOLD: u32 = 0x4000_0000;

/// Those that somebody may set, by lsattr's letters. The others say how a file
/// system stores the file, which is its own affair.
const LETTERS: [(u32, u8); 16] = [
    (0x1, b's'),
    (0x2, b'u'),
    (COMPR, b'c'),
    (0x8, b'S'),
    (IMMUTABLE, b'i'),
    (APPEND, b'a'),
    (0x40, b'd'),
    (0x80, b'A'),
    (0x4000, b'j'),
    (0x8000, b't'),
    (0x1_0000, b'D'),
    (0x2_0000, b'T'),
    (NOCOW, b'C'),
    (0x200_0000, b'x'),
    (0x2000_0000, b'P'),
    (CASEFOLD, b'F'),
];

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags {
    pub bits: u32,
    pub project: u32,
}

/// linux/fs.h's struct fsxattr.
#[repr(C)]
#[derive(Default)]
struct FsXattr {
    xflags: u32,
    extsize: u32,
    nextents: u32,
    project: u32,
    cowextsize: u32,
    pad: [u8; 8],
}

impl Flags {
    /// Those of an open file; none where the file system has none.
    pub fn of(fd: &Fd) -> Flags {
        Self::and_plain(fd).0
    }

    /// The same, and whether the file is plain: see [`tane::Place::is_plain`].
    pub fn and_plain(fd: &Fd) -> (Flags, bool) {
        let mask = LETTERS.iter().fold(0, |all, (bit, _)| all | bit);
        let (known, attributes) = (bits(fd), attributes(fd).unwrap_or_default());
        let bits = known.unwrap_or(0);
        let plain = known.is_ok() && tane::Place::is_plain(bits, attributes.xflags);
        let flags = Flags {
            bits: bits & mask,
            project: attributes.project,
        };
        (flags, plain)
    }

    pub fn is_empty(self) -> bool {
        self == Flags::default()
    }

    /// Those that only an empty file or directory can get.
    pub fn early(self) -> Flags {
        self.only(COMPR | NOCOW | CASEFOLD)
    }

    /// Those that forbid what a copy may still have to do.
    pub fn sealing(self) -> Flags {
        self.only(IMMUTABLE | APPEND)
    }

    fn only(self, mask: u32) -> Flags {
        let bits = self.bits & mask;
        Flags { bits, project: 0 }
    }

    pub fn without(self, others: Flags) -> Flags {
        let bits = self.bits & !others.bits;
        Flags { bits, ..self }
    }

    /// As lsattr(1) shows them.
    pub fn letters(self) -> Vec<u8> {
        let set = LETTERS.iter().filter(|(bit, _)| self.bits & bit != 0);
        set.map(|&(_, letter)| letter).collect()
    }

    /// Adds these bits; those the file did not get, and why.
    pub fn add_bits(self, fd: &Fd) -> std::result::Result<(), (Flags, Errno)> {
        let lost = |bits, error| Err((self.only(bits), error));
        let mut now = match bits(fd) {
            Ok(now) => now,
            Err(e) => return lost(self.bits, e),
        };
        if now & self.bits == self.bits {
            return Ok(());
        }
        // What a file system does not know it refuses, or forgets silently.
        let mut error = Errno(libc::EOPNOTSUPP);
        if let Err(e) = set_bits(fd, now | self.bits) {
            error = e;
            for (bit, _) in LETTERS {
                if self.bits & !now & bit != 0 && set_bits(fd, now | bit).is_ok() {
                    now |= bit;
                }
            }
        }
        match self.bits & !bits(fd).unwrap_or(0) {
            0 => Ok(()),
            left => lost(left, error),
        }
    }

    pub fn set_project(self, fd: &Fd) -> Result<()> {
        let mut attributes = attributes(fd)?;
        if attributes.project == self.project {
            return Ok(());
        }
        attributes.project = self.project;
        fd.sys().ioctl(fd, FS_IOC_FSSETXATTR, &mut attributes)
    }
}

/// Whether this is one of the calls about them, which take 32 bytes at most.
#[cfg(feature = "fuse")]
pub(super) fn is_known(request: u32) -> bool {
    let known = [
        FS_IOC_GETFLAGS,
        FS_IOC_SETFLAGS,
        FS_IOC_FSGETXATTR,
        FS_IOC_FSSETXATTR,
    ];
    known.contains(&request)
}

/// Whether names in a directory match without regard to case.
#[cfg(feature = "fuse")]
pub fn folds_case(dir: &Fd) -> bool {
    bits(dir).is_ok_and(|bits| bits & CASEFOLD != 0)
}

fn bits(fd: &Fd) -> Result<u32> {
    // The kernel writes an int, whatever the number of the call says.
    let mut bits = 0u64;
    fd.sys().ioctl(fd, FS_IOC_GETFLAGS, &mut bits)?;
    Ok(bits as u32)
}

fn set_bits(fd: &Fd, bits: u32) -> Result<()> {
    fd.sys().ioctl(fd, FS_IOC_SETFLAGS, &mut u64::from(bits))
}

fn attributes(fd: &Fd) -> Result<FsXattr> {
    let mut attributes = FsXattr::default();
    fd.sys().ioctl(fd, FS_IOC_FSGETXATTR, &mut attributes)?;
    Ok(attributes)
}

//! What chattr(1) sets: the flags of an inode, and the project it is counted for.

use crate::errno::{Errno, Result};
use crate::{Descriptor, Fd, Linux, Sys};

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

/// Those of one file that somebody may set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Flags {
    /// FS_ bits of linux/fs.h.
    pub bits: u32,
    /// For project quotas; 0: none.
    pub project: u32,
}

/// linux/fs.h's struct fsxattr.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct FsXattr {
    pub xflags: u32,
    pub extsize: u32,
    pub nextents: u32,
    pub project: u32,
    pub cowextsize: u32,
    pad: [u8; 8],
}

const ENCRYPT: u32 = 0x800;
const VERITY: u32 = 0x10_0000;
const INLINE_DATA: u32 = 0x1000_0000;
/// Of struct fsxattr: the data is on XFS's realtime device.
const REALTIME: u32 = 0x1;

/// Whether a read of an open file gives what is in its blocks on the file system's
/// main device, as it is there: nothing is decrypted, checked by fs-verity or kept
/// in the inode. `flags` and `xflags` are what FS_IOC_GETFLAGS and
/// FS_IOC_FSGETXATTR say of it.
pub fn is_plain(flags: u32, xflags: u32) -> bool {
    flags & (ENCRYPT | VERITY | INLINE_DATA) == 0 && xflags & REALTIME == 0
}

impl<L: Linux + ?Sized> Sys<'_, L> {
    /// FS_IOC_GETFLAGS: all bits, also those that nobody may set.
    pub fn flags(self, fd: impl Descriptor) -> Result<u32> {
        // The kernel writes an int, whatever the number of the call says.
        let mut bits = 0u64;
        self.ioctl(fd, FS_IOC_GETFLAGS, &mut bits)?;
        Ok(bits as u32)
    }

    /// FS_IOC_SETFLAGS: these and no others. What a file system does not know it
    /// refuses, or forgets.
    pub fn set_flags(self, fd: impl Descriptor, bits: u32) -> Result<()> {
        self.ioctl(fd, FS_IOC_SETFLAGS, &mut u64::from(bits))
    }

    /// FS_IOC_FSGETXATTR.
    pub fn fsxattr(self, fd: impl Descriptor) -> Result<FsXattr> {
        let mut attributes = FsXattr::default();
        self.ioctl(fd, FS_IOC_FSGETXATTR, &mut attributes)?;
        Ok(attributes)
    }

    /// FS_IOC_FSSETXATTR.
    pub fn set_fsxattr(self, fd: impl Descriptor, attributes: &mut FsXattr) -> Result<()> {
        self.ioctl(fd, FS_IOC_FSSETXATTR, attributes)
    }
}

impl Flags {
    /// Those of an open file; none where the file system has none.
    pub fn of(fd: &Fd) -> Flags {
        Self::and_plain(fd).0
    }

    /// The same, and whether the file is plain: see [`is_plain`].
    pub fn and_plain(fd: &Fd) -> (Flags, bool) {
        let mask = LETTERS.iter().fold(0, |all, (bit, _)| all | bit);
        let (known, attributes) = (fd.sys().flags(fd), fd.sys().fsxattr(fd).unwrap_or_default());
        let bits = known.unwrap_or(0);
        let plain = known.is_ok() && is_plain(bits, attributes.xflags);
        let flags = Flags {
            bits: bits & mask,
            project: attributes.project,
        };
        (flags, plain)
    }

    /// Whether there is nothing to set.
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

    /// All but these.
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
        let sys = fd.sys();
        let mut now = match sys.flags(fd) {
            Ok(now) => now,
            Err(e) => return lost(self.bits, e),
        };
        if now & self.bits == self.bits {
            return Ok(());
        }
        // What a file system does not know it refuses, or forgets silently.
        let mut error = Errno(libc::EOPNOTSUPP);
        if let Err(e) = sys.set_flags(fd, now | self.bits) {
            error = e;
            for (bit, _) in LETTERS {
                if self.bits & !now & bit != 0 && sys.set_flags(fd, now | bit).is_ok() {
                    now |= bit;
                }
            }
        }
        match self.bits & !sys.flags(fd).unwrap_or(0) {
            0 => Ok(()),
            left => lost(left, error),
        }
    }

    /// Makes a file part of the project.
    pub fn set_project(self, fd: &Fd) -> Result<()> {
        let mut attributes = fd.sys().fsxattr(fd)?;
        if attributes.project == self.project {
            return Ok(());
        }
        attributes.project = self.project;
        fd.sys().set_fsxattr(fd, &mut attributes)
    }
}

/// Whether this is one of the calls about them, which take 32 bytes at most.
pub(crate) fn is_known(request: u32) -> bool {
    let known = [
        FS_IOC_GETFLAGS,
        FS_IOC_SETFLAGS,
        FS_IOC_FSGETXATTR,
        FS_IOC_FSSETXATTR,
    ];
    known.contains(&request)
}

/// Whether names in a directory match without regard to case.
pub fn folds_case(dir: &Fd) -> bool {
    dir.sys().flags(dir).is_ok_and(|bits| bits & CASEFOLD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reading_changes_or_finds_elsewhere_is_not_plain() {
        assert!(is_plain(0, 0));
        // Extents, indexed: how a file is stored says nothing about its bytes.
        assert!(is_plain(0x8_1000, 0x2));
        for flags in [ENCRYPT, VERITY, INLINE_DATA] {
            assert!(!is_plain(flags | 0x8_0000, 0), "{flags:#x}");
        }
        assert!(!is_plain(0, REALTIME));
    }
}

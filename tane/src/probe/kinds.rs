//! The marks of file systems that Linux mounts, and of what holds others: those that
//! lie in the first blocks.

use super::{checks, fat, ufs};
use crate::label;

/// Places, in bytes from the start, and what is there.
pub(super) type Marks = &'static [(usize, &'static [u8])];

/// A type, and how it is recognised.
pub(super) struct Kind {
    pub fstype: &'static str,
    pub magic: Marks,
    pub label: Label,
    pub uuid: Uuid,
    /// What else has to be so; it may read what is not in the head.
    pub check: fn(&[u8], label::Read) -> bool,
}

pub(super) enum Label {
    None,
    /// Place and length; ends at a NUL or with padding.
    Bytes(usize, usize),
    Utf16(usize, usize),
    /// Place of its length, in a byte; and the most that may be.
    Pascal(usize, usize),
    /// Somewhere else: this finds it.
    Found(fn(label::Read) -> Option<String>),
}

pub(super) enum Uuid {
    None,
    /// 16 bytes.
    Full(usize),
    /// 32 bits, as FAT writes it: ABCD-EF01.
    Short(usize),
    /// 64 bits, in hexadecimal.
    Serial(usize),
    /// Text of this length.
    Text(usize, usize),
    /// 32 bits, as FAT writes it, wherever this finds them.
    Found(fn(&[u8]) -> Option<usize>),
}

pub(super) const fn kind(fstype: &'static str, magic: Marks, label: Label, uuid: Uuid) -> Kind {
    Kind {
        fstype,
        magic,
        label,
        uuid,
        check: |_, _| true,
    }
}

impl Kind {
    pub(super) const fn check(mut self, check: fn(&[u8], label::Read) -> bool) -> Kind {
        self.check = check;
        self
    }
}

/// By the size of its blocks, its superblock is at one of several places.
macro_rules! ocfs2 {
    ($at:expr) => {
        kind(
            "ocfs2",
            &[($at, b"OCFSV2")],
            Label::Bytes($at + 0x110, 64),
            Uuid::Full($at + 0x150),
        )
    };
}

/// In order: what holds others, then strong marks, since weak ones occur by chance in
/// others. Of file systems that share a device by design the newer comes first.
pub(super) static KINDS: &[Kind] = &[
    kind(
        "crypto_LUKS",
        &[(0, b"LUKS\xba\xbe\0\x02")],
        Label::Bytes(24, 48),
        Uuid::Text(168, 40),
    ),
    kind(
        "crypto_LUKS",
        &[(0, b"LUKS\xba\xbe\0\x01")],
        Label::None,
        Uuid::Text(168, 40),
    ),
    kind(
        "LVM2_member",
        &[(512, b"LABELONE"), (536, b"LVM2 001")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "linux_raid_member",
        &[(4096, b"\xfc\x4e\x2b\xa9")],
        Label::Bytes(4128, 32),
        Uuid::Full(4112),
    ),
    kind(
        "DM_verity_hash",
        &[(0, b"verity\0\0\x01\0\0\0")],
        Label::None,
        Uuid::Full(16),
    ),
    // A boot sector like NTFS's or FAT's.
    kind("BitLocker", &[(3, b"-FVE-FS-")], Label::None, Uuid::None),
    kind(
        "BitLocker",
        &[(3, b"MSWIN4.1"), (424, BITLOCKER_TO_GO)],
        Label::None,
        Uuid::None,
    ),
    kind(
        "xfs",
        &[(0, b"XFSB")],
        Label::Bytes(108, 12),
        Uuid::Full(32),
    ),
    kind(
        "btrfs",
        &[(0x10040, b"_BHRfS_M")],
        Label::Bytes(0x1012b, 256),
        Uuid::Full(0x10020),
    ),
    kind(
        "squashfs",
        &[(0, b"hsqs"), (28, b"\x04\0")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "erofs",
        &[(1024, b"\xe2\xe1\xf5\xe0")],
        Label::Bytes(1088, 16),
        Uuid::Full(1072),
    ),
    kind(
        "f2fs",
        &[(1024, b"\x10\x20\xf5\xf2")],
        Label::Utf16(1148, 512),
        Uuid::Full(1132),
    ),
    kind(
        "ext4",
        &[(0x438, b"\x53\xef")],
        Label::Bytes(0x478, 16),
        Uuid::Full(0x468),
    ),
    kind(
        "swap",
        &[(4086, b"SWAPSPACE2")],
        Label::Bytes(1052, 16),
        Uuid::Full(1036),
    ),
    kind(
        "ntfs3",
        &[(3, b"NTFS    ")],
        Label::Found(label::ntfs),
        Uuid::Serial(0x48),
    ),
    kind(
        "exfat",
        &[(3, b"EXFAT   ")],
        Label::Found(label::exfat),
        Uuid::Short(100),
    ),
    kind("vfat", &[], Label::Bytes(71, 11), Uuid::Short(67)).check(fat::is_32_bits),
    kind(
        "vfat",
        &[],
        Label::Found(fat::label),
        Uuid::Found(fat::serial),
    )
    .check(fat::is_short),
    // Beside an iso9660, it has what that has and more: Windows leaves but a note there.
    kind("udf", &[], Label::Found(label::udf), Uuid::None).check(checks::is_udf),
    kind(
        "iso9660",
        &[(0x8001, b"CD001")],
        Label::Bytes(0x8028, 32),
        Uuid::None,
    ),
    // High Sierra, which was before it.
    kind("iso9660", &[(0x8009, b"CDROM")], Label::None, Uuid::None),
    kind(
        "hfsplus",
        &[(1024, b"H+\0\x04")],
        Label::Found(label::hfsplus),
        Uuid::None,
    ),
    kind(
        "hfsplus",
        &[(1024, b"HX\0\x05")],
        Label::Found(label::hfsplus),
        Uuid::None,
    ),
    // In a classic one, for systems that know no other.
    kind(
        "hfsplus",
        &[(1024, b"BD"), (1148, b"H+")],
        Label::Found(label::wrapped_hfsplus),
        Uuid::None,
    ),
    kind("hfs", &[(1024, b"BD")], Label::Pascal(1060, 27), Uuid::None).check(checks::is_hfs),
    kind(
        "cramfs",
        &[(0, b"\x45\x3d\xcd\x28")],
        Label::Bytes(48, 16),
        Uuid::None,
    ),
    kind(
        "romfs",
        &[(0, b"-rom1fs-")],
        Label::Bytes(16, 16),
        Uuid::None,
    ),
    kind(
        "jfs",
        &[(0x8000, b"JFS1")],
        Label::Bytes(0x8098, 16),
        Uuid::Full(0x8088),
    ),
    // With its revision.
    kind(
        "nilfs2",
        &[(1024, b"\x02\0\0\0\0\0\x34\x34")],
        Label::Bytes(1192, 80),
        Uuid::Full(1176),
    ),
    kind(
        "reiserfs",
        &[(0x10034, b"ReIsEr2Fs")],
        Label::Bytes(0x10064, 16),
        Uuid::Full(0x10054),
    ),
    kind(
        "reiserfs",
        &[(0x10034, b"ReIsEr3Fs")],
        Label::Bytes(0x10064, 16),
        Uuid::Full(0x10054),
    ),
    kind(
        "reiserfs",
        &[(0x10034, b"ReIsErFs")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "reiserfs",
        &[(0x2034, b"ReIsErFs")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "gfs2",
        &[
            (0x10000, b"\x01\x16\x19\x70\0\0\0\x01"),
            (0x10018, b"\0\0\x07"),
        ],
        Label::Bytes(0x100a0, 64),
        Uuid::Full(0x10100),
    ),
    ocfs2!(0x400),
    ocfs2!(0x800),
    ocfs2!(0x1000),
    ocfs2!(0x2000),
    kind(
        "bcachefs",
        &[(
            4120,
            b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
        )],
        Label::Bytes(4168, 32),
        Uuid::Full(4152),
    ),
    kind(
        "befs",
        &[(0x220, b"1SFB")],
        Label::Bytes(0x200, 32),
        Uuid::None,
    ),
    kind(
        "befs",
        &[(0x220, b"BFS1")],
        Label::Bytes(0x200, 32),
        Uuid::None,
    ),
    kind("befs", &[(0x20, b"BFS1")], Label::Bytes(0, 32), Uuid::None),
    kind(
        "hpfs",
        &[(8192, b"\x49\xe8\x95\xf9\xc5\xe9\x53\xfa")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "efs",
        &[(540, b"\0\x07\x29\x59")],
        Label::Bytes(544, 6),
        Uuid::None,
    ),
    kind(
        "efs",
        &[(540, b"\0\x07\x29\x5a")],
        Label::Bytes(544, 6),
        Uuid::None,
    ),
    kind(
        "qnx6",
        &[(0x2000, b"\x22\x11\x19\x68")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "qnx6",
        &[(0x2000, b"\x68\x19\x11\x22")],
        Label::None,
        Uuid::None,
    ),
    kind("qnx6", &[(0, b"\x22\x11\x19\x68")], Label::None, Uuid::None),
    kind(
        "qnx4",
        &[(512, b"/\0\0\0"), (576, b"/.inodes\0")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "omfs",
        &[(272, b"\xc2\x99\x3d\x87")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "vxfs",
        &[(1024, b"\xf5\xfc\x01\xa5")],
        Label::None,
        Uuid::None,
    ),
    kind(
        "vxfs",
        &[(8192, b"\xa5\x01\xfc\xf5")],
        Label::None,
        Uuid::None,
    ),
    kind("bfs", &[(0, b"\xce\xfa\xad\x1b")], Label::None, Uuid::None),
    kind(
        "sysv",
        &[(0x3f8, b"\x20\x7e\x18\xfd")],
        Label::None,
        Uuid::None,
    )
    .check(checks::is_sysv),
    kind(
        "sysv",
        &[(0x3f8, b"\xfd\x18\x7e\x20")],
        Label::None,
        Uuid::None,
    )
    .check(checks::is_sysv),
    kind(
        "sysv",
        &[(0x7f8, b"\x44\x55\x2b\0")],
        Label::None,
        Uuid::None,
    ),
    kind("affs", &[(0, b"DOS")], Label::None, Uuid::None).check(checks::is_affs),
    kind("ufs", &[], Label::None, Uuid::None).check(ufs::is_here),
    // Its mark alone is short: with what else is always the same beside it. Version 3,
    // then 2 and 1 for names of 30 and of 14 bytes.
    kind(
        "minix",
        &[(1028, b"\0\0"), (1036, b"\0\0\0\0"), (1048, b"\x5a\x4d")],
        Label::None,
        Uuid::None,
    ),
    kind("minix", MINIX_2_30, Label::None, Uuid::None),
    kind("minix", MINIX_2_14, Label::None, Uuid::None),
    kind("minix", MINIX_1_30, Label::None, Uuid::None),
    kind("minix", MINIX_1_14, Label::None, Uuid::None),
];

const MINIX_2_30: Marks = &[(1034, b"\0\0\xff\xff\xff\x7f\x78\x24")];
const MINIX_2_14: Marks = &[(1034, b"\0\0\xff\xff\xff\x7f\x68\x24")];
const MINIX_1_30: Marks = &[(1034, b"\0\0\x00\x1c\x08\x10\x8f\x13")];
const MINIX_1_14: Marks = &[(1034, b"\0\0\x00\x1c\x08\x10\x7f\x13")];

/// The identity that a boot sector with a FAT's name has, as the bytes of a GUID.
const BITLOCKER_TO_GO: &[u8] = b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01";

//! Which file system is on a device, by the marks it leaves at fixed places.
//!
//! It reads, never trusts: everything here may come from a hostile image. It
//! answers for what people choose by (type, label, UUID); whether the content
//! is sound is for the file system to say when it is mounted.

use crate::error::Result;
use crate::kernel::Kernel;
use crate::label;
use crate::sys::SysResult;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Enough for every mark below; the farthest is btrfs's, behind 64 KiB.
pub(crate) const HEAD: usize = 68 * 1024;

/// A file system on a device, or something that holds others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The name Linux has for it when mounting. For what cannot be mounted,
    /// blkid's: "swap", "crypto_LUKS", "LVM2_member", "linux_raid_member",
    /// "DM_verity_hash".
    pub fstype: String,
    /// Its name, if it has one. Bytes that are not UTF-8 are replaced.
    pub label: Option<String>,
    /// Its identity, written as blkid(8) writes it.
    pub uuid: Option<String>,
}

/// Where a type's marks are. Places are in bytes from the start.
struct Kind {
    fstype: &'static str,
    magic: &'static [(usize, &'static [u8])],
    label: Label,
    uuid: Uuid,
}

enum Label {
    None,
    /// Place and length; ends at a NUL or with padding.
    Bytes(usize, usize),
    Utf16(usize, usize),
    /// Somewhere else: this finds it.
    Found(fn(label::Read) -> Option<String>),
}

enum Uuid {
    None,
    /// 16 bytes.
    Full(usize),
    /// 32 bits, as FAT writes it: ABCD-EF01.
    Short(usize),
    /// 64 bits, in hexadecimal.
    Serial(usize),
    /// Text of this length.
    Text(usize, usize),
}

const fn kind(
    fstype: &'static str,
    magic: &'static [(usize, &'static [u8])],
    label: Label,
    uuid: Uuid,
) -> Kind {
    Kind {
        fstype,
        magic,
        label,
        uuid,
    }
}

/// In order: strong marks first, since weak ones occur by chance in others.
static KINDS: &[Kind] = &[
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
    kind("squashfs", &[(0, b"hsqs")], Label::None, Uuid::None),
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
    kind(
        "vfat",
        &[(82, b"FAT32   "), (510, b"\x55\xaa")],
        Label::Bytes(71, 11),
        Uuid::Short(67),
    ),
    kind(
        "vfat",
        &[(54, b"FAT16   "), (510, b"\x55\xaa")],
        Label::Bytes(43, 11),
        Uuid::Short(39),
    ),
    kind(
        "vfat",
        &[(54, b"FAT12   "), (510, b"\x55\xaa")],
        Label::Bytes(43, 11),
        Uuid::Short(39),
    ),
    kind(
        "iso9660",
        &[(0x8001, b"CD001")],
        Label::Bytes(0x8028, 32),
        Uuid::None,
    ),
    kind(
        "udf",
        &[(0x8001, b"BEA01")],
        Label::Found(label::udf),
        Uuid::None,
    ),
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

type Marks = &'static [(usize, &'static [u8])];

const MINIX_2_30: Marks = &[(1034, b"\0\0\xff\xff\xff\x7f\x78\x24")];
const MINIX_2_14: Marks = &[(1034, b"\0\0\xff\xff\xff\x7f\x68\x24")];
const MINIX_1_30: Marks = &[(1034, b"\0\0\x00\x1c\x08\x10\x8f\x13")];
const MINIX_1_14: Marks = &[(1034, b"\0\0\x00\x1c\x08\x10\x7f\x13")];

/// Look at a device inside the kernel, such as /dev/vda1. None if nothing known
/// is on it.
pub(crate) fn probe(kernel: &Kernel, device: &Path) -> Result<Option<FileSystem>> {
    let open = |path: &std::ffi::CStr| kernel.openat(libc::AT_FDCWD, path, libc::O_RDONLY, 0);
    let fd = crate::path::with_cstr(device.as_os_str().as_bytes(), open)
        .map_err(|errno| errno.on("read", device))?;
    let read = |at: u64, len| pread_all(kernel, fd.raw, at, len);
    let head = read(0, HEAD).map_err(|errno| errno.on("read", device))?;
    // What cannot be read has no name; that it cannot is for a mount to say.
    let read = |at, len| read(at, len).ok().filter(|bytes| bytes.len() == len);
    Ok(recognise(&head, &read))
}

/// `len` bytes, or fewer at the end.
fn pread_all(kernel: &Kernel, fd: i32, at: u64, len: usize) -> SysResult<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match kernel.pread(fd, &mut bytes[done..], at + done as u64)? {
            0 => break,
            n => done += n,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

fn recognise(head: &[u8], read: label::Read) -> Option<FileSystem> {
    let has = |(at, mark): &(usize, &[u8])| head.get(*at..).is_some_and(|t| t.starts_with(mark));
    let kind = KINDS.iter().find(|kind| kind.magic.iter().all(has))?;
    let fstype = match kind.fstype {
        "ext4" => ext(head),
        fstype => fstype,
    };
    Some(FileSystem {
        fstype: fstype.to_owned(),
        label: label(head, read, &kind.label),
        uuid: uuid(head, &kind.uuid),
    })
}

/// Whether these first bytes are those of a file system that needs nothing of the
/// kernel's configuration but ext4 or FAT themselves.
pub(crate) fn is_plain(head: &[u8]) -> bool {
    // Features of fs/ext4/ext4.h whose code is optional: encryption and casefolding;
    // quota, project ids and verity; and what is not there to be mounted alone.
    const INCOMPAT: u32 = 0x2 | 0x4 | 0x10 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0xe000;
    const RO_COMPAT: u32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x200 | 0x400 | 0x10000;
    let word = |at: usize| match head.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => u32::MAX,
    };
    match recognise(head, &|_, _| None) {
        Some(found) if found.fstype.starts_with("ext") => {
            word(0x460) & !INCOMPAT == 0 && word(0x464) & !RO_COMPAT == 0
        }
        Some(found) => found.fstype == "vfat",
        None => false,
    }
}

/// Whether they are those of an ext2, ext3 or ext4.
pub(crate) fn is_ext(head: &[u8]) -> bool {
    recognise(head, &|_, _| None).is_some_and(|found| found.fstype.starts_with("ext"))
}

/// Which of the three: by journal and features, as blkid(8) decides.
fn ext(head: &[u8]) -> &'static str {
    let word = |at: usize| match head.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => u32::MAX,
    };
    let has_journal = word(0x45c) & 0x4 != 0;
    // filetype, needs recovery, meta_bg; sparse_super, large_file, btree_dir.
    let is_old = word(0x460) & !0x16 == 0 && word(0x464) & !0x7 == 0;
    match (is_old, has_journal) {
        (true, true) => "ext3",
        (true, false) => "ext2",
        (false, _) => "ext4",
    }
}

fn label(head: &[u8], read: label::Read, place: &Label) -> Option<String> {
    let text = match *place {
        Label::None => return None,
        Label::Bytes(at, len) => {
            let bytes = head.get(at..at + len)?;
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(len);
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        }
        Label::Utf16(at, units) => {
            let bytes = head.get(at..at + 2 * units)?;
            let units = bytes
                .chunks_exact(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
            label::utf16(units)
        }
        Label::Found(find) => find(read)?,
    };
    let text = text.trim_end();
    (!text.is_empty() && text != "NO NAME").then(|| text.to_owned())
}

fn uuid(head: &[u8], place: &Uuid) -> Option<String> {
    match *place {
        Uuid::None => None,
        Uuid::Full(at) => {
            let bytes: [u8; 16] = head.get(at..at + 16)?.try_into().ok()?;
            (bytes != [0; 16]).then(|| hyphenated(&bytes))
        }
        Uuid::Short(at) => {
            let bytes = head.get(at..at + 4)?;
            let n = u32::from_le_bytes(bytes.try_into().ok()?);
            (n != 0).then(|| format!("{:04X}-{:04X}", n >> 16, n & 0xffff))
        }
        Uuid::Serial(at) => {
            let bytes = head.get(at..at + 8)?;
            let n = u64::from_le_bytes(bytes.try_into().ok()?);
            (n != 0).then(|| format!("{n:016X}"))
        }
        Uuid::Text(at, len) => label(head, &|_, _| None, &Label::Bytes(at, len)),
    }
}

pub(crate) fn hyphenated(bytes: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: u64, _: usize) -> Option<Vec<u8>> {
        None
    }

    #[test]
    fn the_three_ext_are_told_apart() {
        let mut head = vec![0; 4096];
        head[0x438..0x43a].copy_from_slice(b"\x53\xef");
        let fstype = |head: &[u8]| recognise(head, &nothing).unwrap().fstype;
        assert_eq!(fstype(&head), "ext2");
        head[0x45c] = 4;
        assert_eq!(fstype(&head), "ext3");
        head[0x460] = 0x42;
        assert_eq!(fstype(&head), "ext4");
    }

    #[test]
    fn ext4_is_recognised_with_label_and_uuid() {
        let mut head = vec![0; 4096];
        head[0x438..0x43a].copy_from_slice(b"\x53\xef");
        head[0x460] = 0x42;
        head[0x478..0x47c].copy_from_slice(b"root");
        head[0x468..0x478].copy_from_slice(&std::array::from_fn::<u8, 16, _>(|i| i as u8));
        let found = recognise(&head, &nothing).unwrap();
        assert_eq!(found.fstype, "ext4");
        assert_eq!(found.label.as_deref(), Some("root"));
        let uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(found.uuid.as_deref(), Some(uuid));
    }

    #[test]
    fn an_ext4_with_optional_features_is_not_plain() {
        let mut head = vec![0; 4096];
        head[0x438..0x43a].copy_from_slice(b"\x53\xef");
        head[0x460..0x462].copy_from_slice(&[0xc2, 0x02]);
        head[0x464..0x466].copy_from_slice(&[0x6b, 0x04]);
        assert!(is_plain(&head));
        for (at, bit) in [
            (0x462, 1),
            (0x462, 2),
            (0x465, 0x01),
            (0x465, 0x20),
            (0x465, 0x80),
        ] {
            let mut head = head.clone();
            head[at] |= bit;
            assert!(!is_plain(&head), "{at:#x}: {bit:#x}");
        }
        assert!(!is_plain(&[]));
    }

    #[test]
    fn nothing_is_recognised_as_nothing() {
        assert_eq!(recognise(&[], &nothing), None);
        assert_eq!(recognise(&[0; HEAD], &nothing), None);
    }

    #[test]
    fn a_device_that_ends_in_its_marks_is_no_crash() {
        for kind in KINDS {
            let mut head = vec![0xff; HEAD];
            for (at, mark) in kind.magic {
                head[*at..at + mark.len()].copy_from_slice(mark);
            }
            let end = kind.magic.iter().map(|(at, mark)| at + mark.len()).max();
            for len in end.unwrap_or(0)..HEAD.min(end.unwrap_or(0) + 2000) {
                let read = |at: u64, count: usize| {
                    let at = usize::try_from(at).ok()?;
                    head[..len].get(at..at.checked_add(count)?).map(Vec::from)
                };
                recognise(&head[..len], &read);
            }
        }
    }
}

//! Which file system is on a device, by the marks it leaves at fixed places.
//!
//! It reads, never trusts: everything here may come from a hostile image. It
//! answers for what people choose by (type, label, UUID); whether the content
//! is sound is for the file system to say when it is mounted.

mod checks;
mod fat;
mod kinds;
mod others;
mod ufs;

use crate::error::{Context, Result};
use crate::kernel::Kernel;
use crate::label;
use crate::sys::{Fd, SysResult};
use kinds::{Kind, Label, Uuid, KINDS};
pub(crate) use others::description;
use others::OTHERS;
use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Enough for every mark below; the farthest is btrfs's, behind 64 KiB.
pub(crate) const HEAD: usize = 68 * 1024;

/// A file system on a device, or something that holds others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The name Linux has for it when mounting. For what cannot be mounted,
    /// blkid's, as far as it has one: "swap", "crypto_LUKS", "LVM2_member",
    /// "linux_raid_member", "DM_verity_hash", "apfs".
    pub fstype: String,
    /// Further file systems on the same device: types that it can be mounted as too. A
    /// UDF may have an "iso9660" beside it, for systems that know only that.
    pub also: Vec<String>,
    /// Its name, if it has one. Bytes that are not UTF-8 are replaced.
    pub label: Option<String>,
    /// Its identity, written as blkid(8) writes it.
    pub uuid: Option<String>,
}

/// Look at a device inside the kernel, such as /dev/vda1. None if nothing known
/// is on it.
pub(crate) fn probe(kernel: &Kernel, device: &Path) -> Result<Option<FileSystem>> {
    let fd = open(kernel, device).map_err(|errno| errno.on("read", device))?;
    let read = |at: u64, len| pread_all(kernel, fd.raw(), at, len);
    let head = read(0, HEAD).map_err(|errno| errno.on("read", device))?;
    // What cannot be read has no name; that it cannot is for a mount to say.
    let read = |at, len| read(at, len).ok().filter(|bytes| bytes.len() == len);
    Ok(recognise(&head, &read))
}

/// The dialect of the UFS on a device, as the kernel calls it.
pub(crate) fn ufs_dialect(kernel: &Kernel, device: &Path) -> Option<&'static CStr> {
    let fd = open(kernel, device).ok()?;
    let read = |at, len| pread_all(kernel, fd.raw(), at, len).ok();
    ufs::dialect(&|at, len| read(at, len).filter(|bytes| bytes.len() == len))
}

fn open(kernel: &Kernel, device: &Path) -> SysResult<Fd> {
    let open = |path: &CStr| kernel.openat(libc::AT_FDCWD, path, libc::O_RDONLY, 0);
    crate::path::with_cstr(device.as_os_str().as_bytes(), open)
}

/// `len` bytes, or fewer at the end.
fn pread_all(kernel: &Kernel, fd: i32, at: u64, len: usize) -> SysResult<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match kernel
            .sys()
            .pread(fd, &mut bytes[done..], at + done as u64)?
        {
            0 => break,
            n => done += n,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

impl FileSystem {
    /// Whether it is a file system that a kernel mounts, rather than what holds others
    /// or a file system that Linux has no driver for.
    pub fn is_mountable(&self) -> bool {
        description(&self.fstype).is_none()
    }
}

pub(crate) fn recognise(head: &[u8], read: label::Read) -> Option<FileSystem> {
    let has = |(at, mark): &(usize, &[u8])| head.get(*at..).is_some_and(|t| t.starts_with(mark));
    let is_here = |kind: &&Kind| kind.magic.iter().all(has) && (kind.check)(head, read);
    let mut all = KINDS.iter().filter(is_here);
    let kind = all.next().or_else(|| OTHERS.iter().find(is_here))?;
    let name = |kind: &Kind| match kind.fstype {
        "ext4" => ext(head),
        fstype => fstype,
    };
    let fstype = name(kind);
    let mut also: Vec<_> = all.map(|kind| name(kind).to_owned()).collect();
    also.retain(|other| other != fstype && description(other).is_none());
    also.dedup();
    if description(fstype).is_some() {
        also.clear();
    }
    Some(FileSystem {
        fstype: fstype.to_owned(),
        also,
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

/// Whether they are those of a file system that is made once, and as long as its
/// content.
pub(crate) fn is_packed(head: &[u8]) -> bool {
    let found = recognise(head, &|_, _| None);
    found.is_some_and(|found| ["squashfs", "erofs", "romfs"].contains(&found.fstype.as_str()))
}

/// Whether they are those of an ext2, ext3 or ext4.
pub(crate) fn is_ext(head: &[u8]) -> bool {
    recognise(head, &|_, _| None).is_some_and(|found| found.fstype.starts_with("ext"))
}

/// Which of the three: by journal and features, as blkid(8) decides; or only a journal.
fn ext(head: &[u8]) -> &'static str {
    let word = |at: usize| match head.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => u32::MAX,
    };
    if word(0x460) & 0x8 != 0 {
        return "jbd";
    }
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
        Label::Pascal(at, most) => {
            let len = usize::from(*head.get(at)?).min(most);
            let bytes = head.get(at + 1..at + 1 + len)?;
            String::from_utf8_lossy(bytes).into_owned()
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
        Uuid::Found(find) => uuid(head, &Uuid::Short(find(head)?)),
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

//! What some file systems lack, or have only for files that ask for it.

use crate::errno::{Errno, Result};
use crate::{Fd, XattrOf};
use std::ffi::CString;

// linux/magic.h, and ntfs3's own.
const FAT: i64 = 0x4d44;
const EXFAT: i64 = 0x2011_bab0;
const FUSE: i64 = 0x6573_5546;
const CIFS: i64 = 0xff53_4d42;
const SMB2: i64 = 0xfe53_4d42;
const PLAN9: i64 = 0x0102_1997;
const NTFS3: i64 = 0x7366_746e;

// FILE_ATTRIBUTE_*
const SPARSE: u32 = 0x200;
const COMPRESSED: u32 = 0x800;

fn kind(fd: &Fd) -> Option<i64> {
    fd.sys().fstatfs(fd).ok().map(|found| found.fstype)
}

/// Whether files there can have several names. Where another file system may be behind
/// the one that is seen, that is tried.
pub fn has_links(dir: &Fd) -> bool {
    match kind(dir) {
        Some(FAT | EXFAT) => false,
        Some(FUSE | CIFS | SMB2 | PLAN9) => !are_links_refused(dir),
        _ => true,
    }
}

/// Whether files there have no dots at the ends of their names: a FAT leaves them out.
pub fn strips_dots(dir: &Fd) -> bool {
    matches!(kind(dir), Some(FAT | EXFAT))
}

fn are_links_refused(dir: &Fd) -> bool {
    let sys = dir.sys();
    let name = |end: &str| CString::new(format!(".tane-{}.{end}", std::process::id()));
    let (Ok(file), Ok(link)) = (name("part"), name("link")) else {
        return false;
    };
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
    let Ok(made) = sys.openat(dir, &file, flags, 0o600) else {
        return false;
    };
    drop(made);
    let linked = sys.link(dir, &file, dir, &link);
    if linked.is_ok() {
        let _ = sys.unlink(dir, &link, 0);
    }
    let _ = sys.unlink(dir, &file, 0);
    linked.is_err_and(Errno::forbids_links)
}

/// A new and empty file may get holes. Without that ntfs3 fills them, and takes no file
/// that is longer than the volume.
pub fn allow_holes(file: &Fd) -> Result<()> {
    if kind(file) != Some(NTFS3) {
        return Ok(());
    }
    let (sys, name) = (file.sys(), c"system.ntfs_attrib");
    let mut flags = [0; 4];
    sys.getxattr(XattrOf::Open(file.raw()), name, &mut flags)?;
    let flags = u32::from_ne_bytes(flags);
    match flags & COMPRESSED {
        0 => {
            let flags = (flags | SPARSE).to_ne_bytes();
            sys.setxattr(XattrOf::Open(file.raw()), name, &flags, 0)
        }
        // It has them.
        _ => Ok(()),
    }
}

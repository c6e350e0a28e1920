//! Counts what will be copied, for the progress display.

use super::Source;
use crate::interrupt;
use crate::sys::{Entries, Errno, Fd, Kind};
use std::ffi::CStr;

/// Regular files and their bytes below the sources. What cannot be read is
/// left out here; the copy itself will complain.
pub fn totals(sources: &[Source]) -> (u64, u64) {
    let mut totals = (0, 0);
    for source in sources {
        let _ = match source {
            Source::Entry { dir, name, .. } => entry(dir, name, None, &mut totals),
            Source::Contents { dir, .. } => directory(dir, c".", &mut totals),
        };
    }
    totals
}

fn entry(dir: &Fd, name: &CStr, kind: Option<Kind>, totals: &mut (u64, u64)) -> Result<(), Errno> {
    match kind {
        Some(Kind::Directory) => directory(dir, name, totals),
        Some(Kind::File) | None => {
            let stat = dir.sys().lstat(dir, name)?;
            match stat.kind() {
                Kind::Directory => return directory(dir, name, totals),
                Kind::File => {
                    // Holes are not copied.
                    let data = stat.size.min(stat.blocks * 512);
                    *totals = (totals.0 + 1, totals.1 + data);
                }
                _ => {}
            }
            Ok(())
        }
        Some(_) => Ok(()),
    }
}

fn directory(dir: &Fd, name: &CStr, totals: &mut (u64, u64)) -> Result<(), Errno> {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let fd = dir.sys().openat(dir, name, flags, 0)?;
    let entries = Entries::read(&fd)?;
    let mut below = Vec::new();
    for e in &entries.list {
        if e.kind == Some(Kind::Directory) {
            below.push(entries.name(e));
        } else {
            let _ = entry(&fd, entries.name(e), e.kind, totals);
        }
    }
    for name in below {
        if interrupt::requested() {
            break;
        }
        let _ = directory(&fd, name, totals);
    }
    Ok(())
}

//! Counts what will be copied, for the progress display.

use super::Source;
use crate::interrupt;
use crate::patterns::Excludes;
use crate::sys::{Entries, Errno, Fd, Kind};
use std::ffi::CStr;

/// Regular files and their bytes below the sources, but for what is left out. What cannot be read is
/// left out here; the copy itself will complain.
pub fn totals(sources: &[Source], excludes: &Excludes) -> (u64, u64) {
    let mut scan = Scan {
        excludes,
        totals: (0, 0),
        path: Vec::new(),
    };
    for source in sources {
        let _ = match source {
            Source::Entry { dir, name, .. } => scan.entry(dir, name, None),
            Source::Contents { dir, .. } => scan.directory(dir, c"."),
        };
    }
    scan.totals
}

struct Scan<'e> {
    excludes: &'e Excludes,
    totals: (u64, u64),
    /// Below the source.
    path: Vec<u8>,
}

impl Scan<'_> {
    fn entry(&mut self, dir: &Fd, name: &CStr, kind: Option<Kind>) -> Result<(), Errno> {
        let kind = match kind {
            Some(kind) if kind != Kind::File => kind,
            _ => {
                let stat = dir.sys().lstat(dir, name)?;
                if stat.kind() == Kind::File && !self.excludes.has(&self.path, false) {
                    // Holes are not copied.
                    let data = stat.size.min(stat.blocks * 512);
                    self.totals = (self.totals.0 + 1, self.totals.1 + data);
                }
                stat.kind()
            }
        };
        match kind == Kind::Directory && !self.excludes.has(&self.path, true) {
            true => self.directory(dir, name),
            false => Ok(()),
        }
    }

    fn directory(&mut self, dir: &Fd, name: &CStr) -> Result<(), Errno> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let fd = dir.sys().openat(dir, name, flags, 0)?;
        let entries = Entries::read(&fd)?;
        let length = self.path.len();
        for e in &entries.list {
            if interrupt::requested() {
                break;
            }
            let name = entries.name(e);
            self.path.push(b'/');
            self.path.extend_from_slice(name.to_bytes());
            let _ = self.entry(&fd, name, e.kind);
            self.path.truncate(length);
        }
        Ok(())
    }
}

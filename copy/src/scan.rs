//! Counts what will be copied, for the progress display.

use super::{Source, DEEPEST};
use crate::patterns::Excludes;
use std::ffi::CStr;
use tane_linux::{Entries, Errno, Fd, Kind};

/// Regular files and their bytes below the sources, but for what is left out. What cannot be read is
/// left out here; the copy itself will complain.
pub fn totals(
    sources: &[Source],
    excludes: &Excludes,
    interrupted: impl Fn() -> bool,
) -> (u64, u64) {
    let mut scan = Scan {
        excludes,
        interrupted: &interrupted,
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
    interrupted: &'e dyn Fn() -> bool,
    totals: (u64, u64),
    /// Below the source.
    path: Vec<u8>,
}

/// A directory that is being counted.
struct Level<'d> {
    fd: Fd<'d>,
    entries: Entries,
    next: usize,
    /// Of the directory's own path.
    path_len: usize,
}

impl Scan<'_> {
    /// One entry, and all below it if it is a directory.
    fn entry(&mut self, dir: &Fd, name: &CStr, kind: Option<Kind>) -> Result<(), Errno> {
        match self.is_entered(dir, name, kind)? {
            true => self.directory(dir, name),
            false => Ok(()),
        }
    }

    /// Counts it if it is a file.
    fn is_entered(&mut self, dir: &Fd, name: &CStr, kind: Option<Kind>) -> Result<bool, Errno> {
        let kind = match kind {
            Some(kind) if kind != Kind::File => kind,
            _ => {
                let stat = dir.sys().lstat(dir, name)?;
                if stat.kind() == Kind::File && !self.excludes.has(&self.path, false) {
                    // Holes are not copied.
                    self.totals = (self.totals.0 + 1, self.totals.1.saturating_add(stat.data()));
                }
                stat.kind()
            }
        };
        Ok(kind == Kind::Directory && !self.excludes.has(&self.path, true))
    }

    fn level<'d>(&self, dir: &Fd<'d>, name: &CStr) -> Result<Level<'d>, Errno> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let fd = dir.sys().openat(dir, name, flags, 0)?;
        Ok(Level {
            entries: Entries::read(&fd)?,
            fd,
            next: 0,
            path_len: self.path.len(),
        })
    }

    /// Not by recursion: how deep an image's directories are is its own word.
    fn directory(&mut self, dir: &Fd, name: &CStr) -> Result<(), Errno> {
        let mut levels = vec![self.level(dir, name)?];
        while let Some(level) = levels.last_mut() {
            self.path.truncate(level.path_len);
            let Some(e) = level.entries.list.get(level.next) else {
                levels.pop();
                continue;
            };
            if (self.interrupted)() {
                break;
            }
            level.next += 1;
            let name = level.entries.name(e);
            self.path.push(b'/');
            self.path.extend_from_slice(name.to_bytes());
            if let Ok(true) = self.is_entered(&level.fd, name, e.kind) {
                let below = self.level(&level.fd, name);
                levels.extend(below.ok().filter(|_| levels.len() < DEEPEST));
            }
        }
        Ok(())
    }
}

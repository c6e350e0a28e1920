//! An archive to operations. Entries come in any order; the writer wants to be
//! led from directory to directory.

use super::super::batch::{Op, Sender, Stopped, DATA};
use super::super::loss::Loss;
use super::super::observer::Observer;
use super::header::kind;
use super::parse::{Archive, Entry};
use crate::patterns::Excludes;
use std::ffi::{CStr, CString};
use std::io::{self, Read};
use tane_linux::{Errno, Stat, Time};

pub struct Extract<'r> {
    out: Sender,
    excludes: &'r Excludes,
    report: &'r dyn Observer,
    /// The directories that were entered, outside in.
    stack: Vec<CString>,
}

/// The archive is of no use any more, or nobody wants more of it.
enum Trouble {
    Archive(io::Error),
    Stopped,
}

impl From<io::Error> for Trouble {
    fn from(e: io::Error) -> Self {
        Trouble::Archive(e)
    }
}

impl From<Stopped> for Trouble {
    fn from(_: Stopped) -> Self {
        Trouble::Stopped
    }
}

impl<'r> Extract<'r> {
    pub fn new(out: Sender, excludes: &'r Excludes, report: &'r dyn Observer) -> Self {
        Extract {
            out,
            excludes,
            report,
            stack: Vec::new(),
        }
    }

    pub fn all(&mut self, input: &mut dyn Read) -> io::Result<()> {
        let mut archive = Archive::new(input);
        loop {
            if self.report.interrupted() {
                return Ok(());
            }
            let Some(entry) = archive.next()? else { break };
            match self.entry(&mut archive, entry) {
                Ok(()) => {}
                Err(Trouble::Archive(e)) => return Err(e),
                Err(Trouble::Stopped) => return Ok(()),
            }
        }
        // Whoever writes into a pipe wants to be read to the end.
        io::copy(archive.rest(), &mut io::sink()).map(drop)
    }

    /// Leaves all directories, and sends what is left.
    pub fn end(mut self) {
        let _ = self.go_to(&[]);
        let _ = self.out.flush();
    }

    fn entry(&mut self, archive: &mut Archive, entry: Entry) -> Result<(), Trouble> {
        let Some(mut parts) = parts(&entry.path) else {
            let text = "its name leads out of the destination, or makes no sense";
            self.report.error_text(&entry.path, text.into());
            return Ok(());
        };
        let is_dir = entry.kind == kind::DIRECTORY || entry.path.ends_with(b"/");
        if self.excludes.has_within(&entry.path, is_dir) {
            return Ok(());
        }
        if entry.lost_acl {
            let why = Errno(libc::EINVAL);
            self.report.lose(Loss::Acl, &entry.path, b"", why);
        }
        let stat = stat_of(&entry);
        if entry.kind == kind::DIRECTORY {
            return self.directory(&parts, &entry, stat).map_err(Trouble::from);
        }
        let Some(name) = parts.pop() else {
            return Ok(()); // "./" that is no directory
        };
        // A directory in old archives is a file with a slash.
        if entry.kind == kind::FILE && entry.path.ends_with(b"/") {
            parts.push(name);
            let stat = Stat {
                mode: stat.mode & 0o7777 | libc::S_IFDIR,
                ..stat
            };
            return self.directory(&parts, &entry, stat).map_err(Trouble::from);
        }
        self.go_to(&parts)?;
        if self.report.has_stopped() {
            self.out.reserve(name.count_bytes() + 1)?;
            let name = self.out.put(name.to_bytes_with_nul());
            self.out.push(Op::Omit(name));
            return Ok(());
        }
        match entry.kind {
            kind::FILE | kind::CONTIGUOUS | kind::GNU_SPARSE | 0 => {
                self.file(archive, &name, &entry, stat)
            }
            kind::LINK => {
                let Some(target) = parts_of_target(&entry.target) else {
                    let text = "is linked to what is outside of the destination";
                    self.report.error_text(&entry.path, text.into());
                    return Ok(());
                };
                self.out.reserve(name.count_bytes() + target.len() + 1)?;
                let name = self.out.put(name.to_bytes_with_nul());
                let target = self.out.put(&target);
                self.out.push(Op::LinkTo(name, target));
                Ok(())
            }
            kind::SYMLINK => {
                let Ok(target) = CString::new(entry.target.clone()) else {
                    self.report.error(&entry.path, Errno(libc::EINVAL));
                    return Ok(());
                };
                let size = Sender::head_size(&name, &entry.xattrs);
                self.out.reserve(size + target.count_bytes() + 1)?;
                let head = self.out.head(&name, stat, &entry.xattrs, None);
                let target = self.out.put(target.to_bytes_with_nul());
                self.out.push(Op::Symlink(head, target));
                Ok(())
            }
            kind::CHAR | kind::BLOCK | kind::FIFO => {
                self.out.reserve(Sender::head_size(&name, &entry.xattrs))?;
                let head = self.out.head(&name, stat, &entry.xattrs, None);
                self.out.push(Op::Node(head));
                Ok(())
            }
            other => {
                let why = Errno(libc::EOPNOTSUPP);
                let what = format!("entry of the kind {:?}", char::from(other));
                self.report
                    .lose(Loss::Special, &entry.path, what.as_bytes(), why);
                Ok(())
            }
        }
    }

    fn directory(&mut self, parts: &[CString], entry: &Entry, stat: Stat) -> Result<(), Stopped> {
        let Some((name, above)) = parts.split_last() else {
            self.go_to(&[])?;
            self.out.reserve(Sender::head_size(c".", &entry.xattrs))?;
            let head = self.out.head(c".", stat, &entry.xattrs, None);
            self.out.push(Op::Adopt(head));
            return Ok(());
        };
        self.go_to(above)?;
        self.out.reserve(Sender::head_size(name, &entry.xattrs))?;
        let head = self.out.head(name, stat, &entry.xattrs, None);
        self.out.push(Op::Enter(head));
        self.stack.push(name.clone());
        Ok(())
    }

    /// Leads the writer into this directory.
    fn go_to(&mut self, parts: &[CString]) -> Result<(), Stopped> {
        let same = self.stack.iter().zip(parts).take_while(|(a, b)| a == b);
        let same = same.count();
        while self.stack.len() > same {
            self.stack.pop();
            self.out.reserve(0)?;
            self.out.push(Op::Leave);
        }
        for part in &parts[same..] {
            self.out.reserve(part.count_bytes() + 1)?;
            let name = self.out.put(part.to_bytes_with_nul());
            self.out.push(Op::Pass(name));
            self.stack.push(part.clone());
        }
        Ok(())
    }

    fn file(
        &mut self,
        archive: &mut Archive,
        name: &CStr,
        entry: &Entry,
        stat: Stat,
    ) -> Result<(), Trouble> {
        let head_size = Sender::head_size(name, &entry.xattrs);
        let small = entry.size as usize <= DATA - head_size.min(DATA);
        if small && entry.map.is_none() {
            let size = entry.size as usize;
            self.out.reserve(head_size + size)?;
            let head = self.out.head(name, stat, &entry.xattrs, None);
            archive.read(self.out.space(size))?;
            let data = self.out.take(size);
            self.out.push(Op::File(head, data));
            return Ok(());
        }
        self.out.reserve(head_size)?;
        let head = self.out.head(name, stat, &entry.xattrs, None);
        self.out.push(Op::Begin(head));
        let whole = [(0, entry.size)];
        let map = entry.map.as_deref().unwrap_or(&whole);
        let result = self.pieces(archive, map);
        self.out.reserve(0)?;
        self.out.push(match result {
            Ok(()) => Op::End,
            Err(_) => Op::Abort,
        });
        result
    }

    fn pieces(&mut self, archive: &mut Archive, map: &[(u64, u64)]) -> Result<(), Trouble> {
        for &(mut at, len) in map {
            let end = at + len;
            while at < end {
                if self.report.interrupted() {
                    return Err(Trouble::Stopped);
                }
                if self.out.is_given_up(self.report) {
                    return Ok(()); // the archive skips the rest
                }
                let size = (end - at).min(DATA as u64) as usize;
                self.out.reserve(size)?;
                archive.read(self.out.space(size))?;
                let data = self.out.take(size);
                self.out.push(Op::Piece(at, data));
                at += size as u64;
            }
        }
        Ok(())
    }
}

/// The names in a path; None if it leads out.
fn parts(path: &[u8]) -> Option<Vec<CString>> {
    let parts = path.split(|b| *b == b'/');
    let parts = parts.filter(|part| !part.is_empty() && *part != b".");
    parts
        .map(|part| match part {
            b".." => None,
            part => CString::new(part).ok(),
        })
        .collect()
}

fn parts_of_target(path: &[u8]) -> Option<Vec<u8>> {
    let parts = parts(path)?;
    let parts: Vec<_> = parts.iter().map(|part| part.to_bytes()).collect();
    (!parts.is_empty()).then(|| parts.join(&b'/'))
}

fn stat_of(entry: &Entry) -> Stat {
    let kind = match entry.kind {
        kind::SYMLINK => libc::S_IFLNK,
        kind::CHAR => libc::S_IFCHR,
        kind::BLOCK => libc::S_IFBLK,
        kind::DIRECTORY => libc::S_IFDIR,
        kind::FIFO => libc::S_IFIFO,
        _ => libc::S_IFREG,
    };
    Stat {
        dev: 0,
        ino: 0,
        mode: kind | entry.mode,
        nlink: 1,
        uid: entry.uid,
        gid: entry.gid,
        rdev: libc::makedev(entry.device.0, entry.device.1),
        size: entry.size,
        block_size: 4096,
        blocks: entry.stored.div_ceil(512),
        atime: entry.atime.unwrap_or(entry.mtime),
        mtime: entry.mtime,
        ctime: Time::default(),
        flags: entry.flags,
    }
}

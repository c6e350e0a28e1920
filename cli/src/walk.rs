//! Depth-first walks below a directory, by descriptor, following no symlink.

use crate::interrupt;
use std::ffi::{CStr, CString};
use tane_linux::{Entries, Errno, Fd, Stat};

pub struct Visit<'w, 'a> {
    /// The directory the file is in, and its name there.
    pub dir: &'w Fd<'a>,
    pub name: &'w CStr,
    pub path: &'w [u8],
    pub depth: usize,
    pub stat: &'w Stat,
    /// A directory, after its contents were visited.
    pub after: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// If this is a directory, visit what is in it.
    Into,
    /// Go on behind it.
    Past,
}

struct Level<'a> {
    fd: Fd<'a>,
    name: CString,
    stat: Stat,
    entries: Entries,
    next: usize,
    path_len: usize,
}

/// What a walk needs from its user.
pub trait Visitor {
    type Error;
    fn visit(&mut self, visit: &Visit) -> Result<Next, Self::Error>;
    /// Something cannot be read: the walk goes on without it.
    fn unreadable(&mut self, path: &[u8], error: Errno);
}

/// Visits `name` in `dir` and all below, in the order of names.
pub fn walk<'a, V: Visitor>(
    dir: &Fd<'a>,
    name: &CStr,
    shown: &[u8],
    visitor: &mut V,
) -> Result<(), V::Error> {
    let mut path = shown.to_vec();
    let mut levels: Vec<Level<'a>> = Vec::new();
    if let Some(top) = step(dir, name, &path, &levels, visitor)? {
        levels.push(top);
    }
    while let Some(level) = levels.last_mut() {
        path.truncate(level.path_len);
        if interrupt::requested() {
            return Ok(());
        }
        let Some(entry) = level.entries.list.get(level.next) else {
            if let Some(done) = levels.pop() {
                let parent = levels.last().map_or(dir, |l| &l.fd);
                let (name, stat, depth) = (&done.name, &done.stat, levels.len());
                drop(done.fd);
                let visit = Visit {
                    dir: parent,
                    name,
                    path: &path,
                    depth,
                    stat,
                    after: true,
                };
                visitor.visit(&visit)?;
            }
            continue;
        };
        let name: CString = level.entries.name(entry).into();
        level.next += 1;
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        let Some(level) = levels.last() else {
            return Ok(());
        };
        if let Some(below) = step(&level.fd, &name, &path, &levels, visitor)? {
            levels.push(below);
        }
    }
    Ok(())
}

/// Visits one file; a directory to go into is returned.
fn step<'a, V: Visitor>(
    dir: &Fd<'a>,
    name: &CStr,
    path: &[u8],
    above: &[Level],
    visitor: &mut V,
) -> Result<Option<Level<'a>>, V::Error> {
    let sys = dir.sys();
    let stat = match sys.lstat(dir, name) {
        Ok(stat) => stat,
        Err(e) => {
            visitor.unreadable(path, e);
            return Ok(None);
        }
    };
    let visit = Visit {
        dir,
        name,
        path,
        depth: above.len(),
        stat: &stat,
        after: false,
    };
    let next = visitor.visit(&visit)?;
    if next == Next::Past || stat.mode & libc::S_IFMT != libc::S_IFDIR {
        return Ok(None);
    }
    let open = || {
        if above.iter().any(|l| l.stat.identity() == stat.identity()) {
            return Err(Errno(libc::ELOOP)); // a damaged image
        }
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let fd = sys.openat(dir, name, flags, 0)?;
        let mut entries = Entries::read(&fd)?;
        entries.sort_by_name();
        Ok(Level {
            fd,
            name: name.into(),
            stat,
            entries,
            next: 0,
            path_len: path.len(),
        })
    };
    match open() {
        Ok(level) => Ok(Some(level)),
        Err(e) => {
            visitor.unreadable(path, e);
            Ok(None)
        }
    }
}

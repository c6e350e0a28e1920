//! Walks two directories at once, in the order of names.

use super::told::{self, Told};
use crate::failure::Result;
use crate::interrupt;
use std::cmp::Ordering;
use std::ffi::{CStr, CString};
use std::ops::Deref;
use std::rc::Rc;
use tane_linux::{Descriptor, Entries, Errno, Fd, Flags, Kind, Stat, Xattrs};

/// Where one of the two trees is.
pub enum Top<'t, 'a> {
    /// With a kernel that can be asked.
    Kernel(&'t Fd<'a>, &'t CStr),
    /// With a process that tells it.
    Told(&'t mut Told),
}

/// A file of one of the two.
pub struct Entry<'w, 'a> {
    pub stat: Stat,
    from: From<'w, 'a>,
}

enum From<'w, 'a> {
    Kernel(&'w Fd<'a>, &'w CStr),
    Told(&'w told::Entry),
}

/// A file that is open, and whose it is.
pub enum Content<'w, 'a> {
    Own(Fd<'a>),
    Lent(&'w Fd<'a>),
}

impl Descriptor for Content<'_, '_> {
    fn raw(&self) -> i32 {
        (**self).raw()
    }
}

impl<'a> Deref for Content<'_, 'a> {
    type Target = Fd<'a>;

    fn deref(&self) -> &Fd<'a> {
        match self {
            Content::Own(fd) => fd,
            Content::Lent(fd) => fd,
        }
    }
}

type Known<T> = std::result::Result<T, Errno>;

impl<'w, 'a> Entry<'w, 'a> {
    /// Open for reading.
    pub fn open(&self) -> Known<Content<'w, 'a>> {
        match &self.from {
            From::Kernel(dir, name) => {
                // O_NONBLOCK: should it have become a fifo meanwhile.
                let flags = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
                dir.sys().openat(dir, name, flags, 0).map(Content::Own)
            }
            From::Told(entry) => entry.content.as_ref().map(Content::Lent).map_err(|e| *e),
        }
    }

    /// What a symlink points to.
    pub fn target(&self) -> Known<Vec<u8>> {
        match &self.from {
            From::Kernel(dir, name) => dir.sys().readlink(dir, name),
            From::Told(entry) => entry.target.clone(),
        }
    }

    /// Extended attributes that a copy keeps, packed.
    pub fn xattrs(&self) -> Known<Vec<u8>> {
        match &self.from {
            From::Kernel(dir, name) => {
                Xattrs::of_entry(dir, name).map(|found| found.portable().to_vec())
            }
            From::Told(entry) => entry.xattrs.clone(),
        }
    }

    /// What chattr(1) has set, in its letters.
    pub fn flags(&self) -> Known<Vec<u8>> {
        match &self.from {
            From::Kernel(..) => self.open().map(|fd| Flags::of(&fd).letters()),
            From::Told(entry) => entry.flags.clone(),
        }
    }
}

/// What is called the same in both; one is missing if the other stands alone.
pub struct Pair<'w, 'a> {
    /// Below the two that are compared; "." for themselves.
    pub path: &'w [u8],
    pub old: Option<Entry<'w, 'a>>,
    pub new: Option<Entry<'w, 'a>>,
}

pub trait PairVisitor {
    /// False: nothing below is of interest.
    fn visit(&mut self, pair: &Pair) -> Result<bool>;
    /// Something cannot be read in one of them: the walk goes on without it.
    fn unreadable(&mut self, is_new: bool, path: &[u8], error: Errno);
}

/// A directory of one of the two.
enum Half<'a> {
    Kernel {
        fd: Fd<'a>,
        identity: (u64, u64),
        entries: Entries,
        next: usize,
    },
    /// What is in it has this depth.
    Told(u32),
}

/// A directory that both have, or one.
struct Level<'a> {
    halves: [Option<Half<'a>>; 2],
    path_len: usize,
}

impl Half<'_> {
    /// The name that comes next.
    fn name(&self, told: Option<&mut Told>) -> Result<Option<CString>> {
        match self {
            Half::Kernel { entries, next, .. } => {
                let entry = entries.list.get(*next);
                Ok(entry.map(|entry| entries.name(entry).to_owned()))
            }
            Half::Told(depth) => told.map_or(Ok(None), |told| told.name_at(*depth)),
        }
    }
}

impl Level<'_> {
    /// The next name, and who has it.
    fn next(&mut self, told: &mut [Option<&mut Told>; 2]) -> Result<Option<(CString, [bool; 2])>> {
        let mut names = [None, None];
        for i in 0..2 {
            if let Some(half) = &self.halves[i] {
                names[i] = half.name(told[i].as_deref_mut())?;
            }
        }
        let [old, new] = names;
        let has = match (&old, &new) {
            (None, None) => return Ok(None),
            (Some(_), None) => [true, false],
            (None, Some(_)) => [false, true],
            (Some(a), Some(b)) => match a.cmp(b) {
                Ordering::Less => [true, false],
                Ordering::Equal => [true, true],
                Ordering::Greater => [false, true],
            },
        };
        for (half, has) in self.halves.iter_mut().zip(has) {
            if let Some(Half::Kernel { next, .. }) = half.as_mut().filter(|_| has) {
                *next += 1;
            }
        }
        let name = if has[0] { old } else { new };
        Ok(name.map(|name| (name, has)))
    }
}

/// One entry, before it is known what it is.
enum Found<'w, 'a> {
    Kernel(&'w Fd<'a>, &'w CStr),
    Told(Rc<told::Entry>),
}

/// Visits the two entries, and all below them.
pub fn walk<'a, V: PairVisitor>(old: Top<'_, 'a>, new: Top<'_, 'a>, visitor: &mut V) -> Result<()> {
    let mut path = b".".to_vec();
    let mut told = [None, None];
    let mut tops = [None, None];
    for (i, top) in [old, new].into_iter().enumerate() {
        match top {
            Top::Kernel(dir, name) => tops[i] = Some(Found::Kernel(dir, name)),
            Top::Told(from) => {
                tops[i] = from.next()?.map(Found::Told);
                told[i] = Some(from);
            }
        }
    }
    let mut levels: Vec<Level<'a>> = Vec::new();
    levels.extend(step(&tops, &path, &levels, visitor)?);
    while let Some(level) = levels.last_mut() {
        interrupt::check()?;
        path.truncate(level.path_len);
        let Some((name, has)) = level.next(&mut told)? else {
            levels.pop();
            continue;
        };
        match levels.len() {
            1 => path.clear(),
            _ => path.push(b'/'),
        }
        path.extend_from_slice(name.to_bytes());
        let Some(level) = levels.last() else {
            return Ok(());
        };
        let mut entries = [None, None];
        for i in 0..2 {
            entries[i] = match level.halves[i].as_ref().filter(|_| has[i]) {
                Some(Half::Kernel { fd, .. }) => Some(Found::Kernel(fd, &name)),
                Some(Half::Told(_)) => match &mut told[i] {
                    Some(told) => told.next()?.map(Found::Told),
                    None => None,
                },
                None => None,
            };
        }
        let below = step(&entries, &path, &levels, visitor)?;
        levels.extend(below);
    }
    Ok(())
}

/// Visits one pair; directories to go into are returned.
fn step<'a, V: PairVisitor>(
    entries: &[Option<Found<'_, 'a>>; 2],
    path: &[u8],
    above: &[Level<'a>],
    visitor: &mut V,
) -> Result<Option<Level<'a>>> {
    let mut found = [None, None];
    for (i, entry) in entries.iter().enumerate() {
        let (stat, from) = match entry {
            Some(Found::Kernel(dir, name)) => (dir.sys().lstat(dir, name), From::Kernel(dir, name)),
            Some(Found::Told(entry)) => (entry.stat, From::Told(entry)),
            None => continue,
        };
        match stat {
            Ok(stat) => found[i] = Some(Entry { stat, from }),
            Err(e) => {
                // Nothing can be said of the other.
                visitor.unreadable(i == 1, path, e);
                return Ok(None);
            }
        }
    }
    let [old, new] = found;
    let pair = Pair { path, old, new };
    if !visitor.visit(&pair)? {
        return Ok(None);
    }
    let mut level = Level {
        halves: [None, None],
        path_len: path.len(),
    };
    for (i, entry) in [&pair.old, &pair.new].into_iter().enumerate() {
        let is_dir = |e: &&Entry| e.stat.kind() == Kind::Directory;
        let Some(entry) = entry.as_ref().filter(is_dir) else {
            continue;
        };
        let halves = above.iter().filter_map(|level| level.halves[i].as_ref());
        match half(entry, halves) {
            Ok(half) => level.halves[i] = Some(half),
            Err(e) => {
                // Else all of the other would seem to be missing here.
                visitor.unreadable(i == 1, path, e);
                return Ok(None);
            }
        }
    }
    let any = level.halves.iter().any(Option::is_some);
    Ok(any.then_some(level))
}

fn half<'h, 'a: 'h>(
    entry: &Entry<'_, 'a>,
    mut above: impl Iterator<Item = &'h Half<'a>>,
) -> Known<Half<'a>> {
    let (dir, name) = match &entry.from {
        From::Kernel(dir, name) => (dir, name),
        From::Told(told) => return told.listed.map(|()| Half::Told(told.depth + 1)),
    };
    let identity = entry.stat.identity();
    let is_it = |half: &Half| matches!(half, Half::Kernel { identity: id, .. } if *id == identity);
    if above.any(is_it) {
        return Err(Errno(libc::ELOOP)); // a damaged image
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let fd = dir.sys().openat(dir, name, flags, 0)?;
    let mut entries = Entries::read(&fd)?;
    entries.sort_by_name();
    Ok(Half::Kernel {
        fd,
        identity,
        entries,
        next: 0,
    })
}

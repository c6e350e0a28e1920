//! Walks two directories at once, in the order of names.

use crate::failure::Result;
use crate::interrupt;
use std::cmp::Ordering;
use std::ffi::{CStr, CString};
use tane_linux::{Entries, Errno, Fd, Kind, Stat};

/// A file of one of the two.
pub struct Entry<'w, 'a> {
    pub dir: &'w Fd<'a>,
    pub name: &'w CStr,
    pub stat: Stat,
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

struct Half<'a> {
    fd: Fd<'a>,
    identity: (u64, u64),
    entries: Entries,
    next: usize,
}

/// A directory that both have, or one.
struct Level<'a> {
    halves: [Option<Half<'a>>; 2],
    path_len: usize,
}

impl Half<'_> {
    fn name(&self) -> Option<&CStr> {
        let entry = self.entries.list.get(self.next)?;
        Some(self.entries.name(entry))
    }
}

impl Level<'_> {
    /// The next name, and who has it.
    fn next(&mut self) -> Option<(CString, [bool; 2])> {
        let [old, new] = [0, 1].map(|i| self.halves[i].as_ref().and_then(Half::name));
        let has = match (old, new) {
            (None, None) => return None,
            (Some(_), None) => [true, false],
            (None, Some(_)) => [false, true],
            (Some(a), Some(b)) => match a.cmp(b) {
                Ordering::Less => [true, false],
                Ordering::Equal => [true, true],
                Ordering::Greater => [false, true],
            },
        };
        let name = (if has[0] { old } else { new })?.into();
        for (half, has) in self.halves.iter_mut().zip(has) {
            if let Some(half) = half.as_mut().filter(|_| has) {
                half.next += 1;
            }
        }
        Some((name, has))
    }
}

/// Visits the two entries, and all below them.
pub fn walk<'a, V: PairVisitor>(
    old: (&Fd<'a>, &CStr),
    new: (&Fd<'a>, &CStr),
    visitor: &mut V,
) -> Result<()> {
    let mut path = b".".to_vec();
    let tops = [Some(old), Some(new)];
    let mut levels: Vec<Level<'a>> = Vec::new();
    levels.extend(step(tops, &path, &levels, visitor)?);
    while let Some(level) = levels.last_mut() {
        interrupt::check()?;
        path.truncate(level.path_len);
        let Some((name, has)) = level.next() else {
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
        let entries = [0, 1].map(|i| {
            let half = level.halves[i].as_ref().filter(|_| has[i]);
            half.map(|half| (&half.fd, name.as_c_str()))
        });
        let below = step(entries, &path, &levels, visitor)?;
        levels.extend(below);
    }
    Ok(())
}

/// Visits one pair; directories to go into are returned.
fn step<'a, V: PairVisitor>(
    entries: [Option<(&Fd<'a>, &CStr)>; 2],
    path: &[u8],
    above: &[Level<'a>],
    visitor: &mut V,
) -> Result<Option<Level<'a>>> {
    let mut found = [None, None];
    for (i, entry) in entries.iter().enumerate() {
        let Some((dir, name)) = *entry else {
            continue;
        };
        match dir.sys().lstat(dir, name) {
            Ok(stat) => found[i] = Some(Entry { dir, name, stat }),
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
        match half(entry, halves.map(|h| h.identity)) {
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

fn half<'a>(
    entry: &Entry<'_, 'a>,
    mut above: impl Iterator<Item = (u64, u64)>,
) -> std::result::Result<Half<'a>, Errno> {
    let identity = entry.stat.identity();
    if above.any(|id| id == identity) {
        return Err(Errno(libc::ELOOP)); // a damaged image
    }
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let fd = entry.dir.sys().openat(entry.dir, entry.name, flags, 0)?;
    let mut entries = Entries::read(&fd)?;
    entries.sort_by_name();
    Ok(Half {
        fd,
        identity,
        entries,
        next: 0,
    })
}

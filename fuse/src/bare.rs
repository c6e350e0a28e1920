//! Whether any file has extended attributes.
//!
//! Whoever copies a tree with all that belongs to it asks for them file by file, two
//! requests for each, and most trees have none at all. That can be said once and for
//! all (ENOSYS), but only of all files. So when the first ones that were asked about
//! have none, all names are looked through, by the thread that would wait for
//! requests otherwise, until one is found that has some.
//!
//! Only where that was asked for, as some programs take it for an error, and where
//! nothing is written: any file may get some otherwise.

use crate::listing::Listing;
use crate::node::locked;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::Mutex;
use tane_linux::{is_safe_name, Errno, Fd, Kind, Target};

/// So many files were asked about, and have none, before all are looked through.
const ASKED: u32 = 32;
/// A deeper tree is not looked through: each level is an open directory.
const DEPTH: usize = 100;

enum State {
    /// They may have some. That is for good.
    Unknown,
    /// For more to be asked about.
    Waiting,
    /// The directories from the root down to where it is.
    Looking(Vec<(Fd<'static>, Listing)>),
    None,
}

pub struct Bare {
    state: Mutex<State>,
    asked: AtomicU32,
    none: AtomicBool,
}

impl Bare {
    /// `may_look`: otherwise it is never known.
    pub fn new(may_look: bool) -> Bare {
        let state = match may_look {
            true => State::Waiting,
            false => State::Unknown,
        };
        Bare {
            state: Mutex::new(state),
            asked: AtomicU32::new(0),
            none: AtomicBool::new(false),
        }
    }

    /// No file has any.
    pub fn is_known(&self) -> bool {
        self.none.load(Relaxed)
    }

    /// The host has asked for a file's, in the tree below this directory.
    pub fn was_asked(&self, none: bool, root: &Fd<'static>) {
        if !none {
            *locked(&self.state) = State::Unknown;
        } else if self.asked.fetch_add(1, Relaxed) == ASKED {
            let mut state = locked(&self.state);
            *state = match std::mem::replace(&mut *state, State::Unknown) {
                State::Waiting => begin(root).map_or(State::Unknown, State::Looking),
                other => other,
            };
        }
    }

    pub fn is_looking(&self) -> bool {
        let state = self.state.try_lock();
        state.is_ok_and(|state| matches!(*state, State::Looking(_)))
    }

    /// Looks at one file. False: there is none to look at.
    pub fn look(&self) -> bool {
        // Somebody else is at it.
        let Ok(mut state) = self.state.try_lock() else {
            return false;
        };
        let State::Looking(dirs) = &mut *state else {
            return false;
        };
        match step(dirs) {
            Ok(true) => return true,
            Ok(false) if dirs.is_empty() => {
                *state = State::None;
                self.none.store(true, Relaxed);
            }
            _ => *state = State::Unknown,
        }
        false
    }
}

/// Whether this listing says that there are none.
pub fn is_none(listed: Result<usize, Errno>) -> bool {
    matches!(listed, Ok(0) | Err(Errno(libc::EOPNOTSUPP)))
}

/// From the root on, which has none itself.
fn begin(root: &Fd<'static>) -> Option<Vec<(Fd<'static>, Listing)>> {
    let sys = root.sys();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY;
    let dir = sys.openat(root, c".", flags, 0).ok()?;
    let none = is_none(Target::Open(&dir).list(&mut []));
    none.then(|| vec![(dir, Listing::default())])
}

/// The next entry. False: the last one was seen, or one that has some.
fn step(dirs: &mut Vec<(Fd<'static>, Listing)>) -> Result<bool, Errno> {
    let depth = dirs.len();
    let Some((dir, listing)) = dirs.last_mut() else {
        return Ok(false);
    };
    let dir: &Fd = dir;
    let Some(entry) = listing.peek(dir)? else {
        dirs.pop();
        return Ok(!dirs.is_empty());
    };
    let (next, name) = (entry.next, entry.name.to_owned());
    let kind = Kind::from_dirent(entry.d_type);
    listing.take(next, name.to_bytes());
    if !is_safe_name(name.to_bytes()) {
        return Ok(true);
    }
    let sys = dir.sys();
    if !is_none(Target::Entry(dir, &name).list(&mut [])) {
        return Ok(false);
    }
    let kind = match kind {
        Some(kind) => kind,
        None => sys.lstat(dir, &name)?.kind(),
    };
    if kind == Kind::Directory {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let below = sys.openat(dir, &name, flags, 0)?;
        if depth >= DEPTH {
            return Ok(false);
        }
        dirs.push((below, Listing::default()));
    }
    Ok(true)
}

//! A file that the host's kernel knows: where it is inside, and an open
//! descriptor of it as long as it is used.
//!
//! Whoever changes names inside is the host's kernel alone, so that a node's
//! place is always right. A file that loses the name it is known by is kept
//! open instead until the host forgets it.

use crate::listing::Listing;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tane_linux::{Errno, Fd, Kind, Stat};

type Result<T> = std::result::Result<T, Errno>;

/// An open file of the side that is served.
pub struct Open {
    pub fd: Fd<'static>,
    /// Whether it was opened for writing too.
    pub writable: bool,
    /// Of a directory: how far it was listed.
    pub listing: Mutex<Listing>,
}

impl Open {
    pub fn new(fd: Fd<'static>) -> Self {
        Open {
            fd,
            writable: false,
            listing: Mutex::default(),
        }
    }
}

/// A name in a directory.
#[derive(Clone)]
pub struct Dentry {
    pub parent: Arc<Node>,
    pub name: CString,
}

impl Dentry {
    fn is(&self, parent: &Node, name: &CString) -> bool {
        self.parent.id == parent.id && self.name == *name
    }
}

#[derive(Default)]
struct State {
    /// None of the root, and of a file whose name was removed.
    dentry: Option<Dentry>,
    open: Option<Arc<Open>>,
    /// It must stay open: it has no name to find it by.
    pinned: bool,
}

pub struct Node {
    /// What the host's kernel calls it.
    pub id: u64,
    pub kind: Kind,
    /// What tells it from others inside.
    pub identity: (u64, u64),
    /// When the host's kernel was first told of it: for good, where nothing is
    /// written.
    pub size: u64,
    /// Names in it match without regard to case, so that one name of the host's
    /// is not one of ours.
    pub folds_case: std::sync::atomic::AtomicBool,
    state: Mutex<State>,
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub fn root(id: u64, stat: &Stat, fd: Fd<'static>) -> Self {
        let node = Node::new(id, stat, None);
        {
            let mut state = locked(&node.state);
            state.open = Some(Arc::new(Open::new(fd)));
            state.pinned = true;
        }
        node
    }

    pub fn new(id: u64, stat: &Stat, dentry: Option<Dentry>) -> Self {
        Node {
            id,
            kind: stat.kind(),
            identity: stat.identity(),
            size: stat.size,
            folds_case: false.into(),
            state: Mutex::new(State {
                dentry,
                ..State::default()
            }),
        }
    }

    /// Its descriptor, if it is open.
    pub fn held(&self) -> Option<Arc<Open>> {
        locked(&self.state).open.clone()
    }

    pub fn dentry(&self) -> Option<Dentry> {
        locked(&self.state).dentry.clone()
    }

    /// Opens it under its name in its parent: files and directories for reading,
    /// files for writing too where that is allowed, others by O_PATH. None: that
    /// name is another file's by now. True: it was not open yet.
    pub fn open_in(
        &self,
        parent: &Fd<'static>,
        name: &CString,
        writable: bool,
    ) -> Result<Option<(Arc<Open>, bool)>> {
        let Some(open) = self.open_at(parent, name, writable)? else {
            return Ok(None);
        };
        let open = Arc::new(open);
        let mut state = locked(&self.state);
        // Two may have opened it; all must use one, for the listing's sake.
        let fresh = state.open.is_none();
        Ok(Some((state.open.get_or_insert(open).clone(), fresh)))
    }

    /// Opens it again, for writing or with an error that says why not.
    pub fn reopen_to_write(&self, parent: &Fd<'static>, name: &CString) -> Result<Arc<Open>> {
        let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_NOFOLLOW;
        let fd = parent.sys().openat(parent, name, flags, 0)?;
        if fd.sys().fstat(&fd)?.identity() != self.identity {
            return Err(Errno(libc::ESTALE));
        }
        let open = Arc::new(Open {
            writable: true,
            ..Open::new(fd)
        });
        locked(&self.state).open = Some(open.clone());
        Ok(open)
    }

    fn open_at(
        &self,
        parent: &Fd<'static>,
        name: &CString,
        writable: bool,
    ) -> Result<Option<Open>> {
        let sys = parent.sys();
        let open = |flags| {
            let fd = sys.openat(parent, name, flags | libc::O_NOFOLLOW, 0)?;
            let same = sys.fstat(&fd)?.identity() == self.identity;
            Ok(same.then(|| Open::new(fd)))
        };
        match self.kind {
            Kind::Directory => open(libc::O_RDONLY | libc::O_DIRECTORY),
            // O_NONBLOCK: the name might be a fifo's by now.
            Kind::File if writable => match open(libc::O_RDWR | libc::O_NONBLOCK) {
                Ok(open) => Ok(open.map(|open| Open {
                    writable: true,
                    ..open
                })),
                // Immutable, sealed by fs-verity, or a program that runs.
                Err(_) => open(libc::O_RDONLY | libc::O_NONBLOCK),
            },
            Kind::File => open(libc::O_RDONLY | libc::O_NONBLOCK),
            _ => open(libc::O_PATH),
        }
    }

    /// Gives up the descriptor if it can be had again. False: it cannot.
    pub fn close(&self) -> bool {
        let mut state = locked(&self.state);
        let open = match state.pinned {
            false => state.open.take(),
            true => return false,
        };
        drop(state);
        drop(open);
        true
    }

    pub fn is_in(&self, parent: &Node) -> bool {
        let state = locked(&self.state);
        state
            .dentry
            .as_ref()
            .is_some_and(|p| p.parent.id == parent.id)
    }

    /// Whether this is the name it is known by.
    pub fn is_at(&self, parent: &Node, name: &CString) -> bool {
        let state = locked(&self.state);
        state.dentry.as_ref().is_some_and(|p| p.is(parent, name))
    }

    /// The name it is known by is about to go: it stays open from here on.
    pub fn pin(&self) {
        locked(&self.state).pinned = true;
    }

    /// What was about to go has gone, or has not.
    pub fn unpin(&self, parent: &Node, name: &CString, gone: bool) {
        let mut state = locked(&self.state);
        if state.dentry.as_ref().is_some_and(|p| p.is(parent, name)) {
            if gone {
                state.dentry = None;
            } else {
                state.pinned = false;
            }
        }
    }

    /// It will not be looked for any more.
    pub fn forget_dentry(&self) -> Option<Dentry> {
        locked(&self.state).dentry.take()
    }

    /// It was found here.
    pub fn found(&self, dentry: impl FnOnce() -> Dentry) {
        let mut state = locked(&self.state);
        if state.dentry.is_none() && self.id != crate::ROOT {
            state.dentry = Some(dentry());
            state.pinned = false;
        }
    }

    /// Its name changes, if it is the one it is known by.
    pub fn moved(&self, from: (&Node, &CString), to: Dentry) {
        let mut state = locked(&self.state);
        if state.dentry.as_ref().is_some_and(|p| p.is(from.0, from.1)) {
            state.dentry = Some(to);
        }
    }
}

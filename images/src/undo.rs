//! What a disk that is kept in memory held when it was asked to remember: of each piece
//! that has changed since, what was in it. Nothing is copied before it changes.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a disk held, for as long as this is there.
pub trait Undo: Send + Sync {
    /// Hold that again. No transfer is under way. What was remembered since is forgotten.
    fn undo(&self) -> io::Result<()>;
}

/// Of what cannot change.
pub(crate) struct Unchanged;

impl Undo for Unchanged {
    fn undo(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Level<T> {
    id: u64,
    /// Pieces by number, as they were then.
    old: HashMap<u64, T>,
}

#[derive(Debug)]
struct Levels<T> {
    levels: Vec<Level<T>>,
    last_id: u64,
}

#[derive(Debug)]
pub(crate) struct UndoLog<T> {
    levels: Mutex<Levels<T>>,
    /// There are any.
    active: AtomicBool,
}

impl<T> Default for UndoLog<T> {
    fn default() -> Self {
        let levels = Levels {
            levels: Vec::new(),
            last_id: 0,
        };
        Self {
            levels: Mutex::new(levels),
            active: AtomicBool::new(false),
        }
    }
}

impl<T> UndoLog<T> {
    fn lock(&self) -> MutexGuard<'_, Levels<T>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remember what changes from now on; the number by which to ask for it.
    pub fn begin(&self) -> u64 {
        let mut own = self.lock();
        own.last_id += 1;
        let id = own.last_id;
        own.levels.push(Level {
            id,
            old: HashMap::new(),
        });
        self.active.store(true, Ordering::SeqCst);
        id
    }

    /// A piece is about to change, from what `old` finds it to be.
    pub fn keep(&self, piece: u64, old: impl FnOnce() -> io::Result<T>) -> io::Result<()> {
        if !self.active.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut own = self.lock();
        if let Some(level) = own.levels.last_mut() {
            if let std::collections::hash_map::Entry::Vacant(entry) = level.old.entry(piece) {
                entry.insert(old()?);
            }
        }
        Ok(())
    }

    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::SeqCst)
    }

    /// What has changed since that beginning, as it was, all of it or an error at the first
    /// that `put` cannot put back.
    pub fn go_back(
        &self,
        id: u64,
        mut put: impl FnMut(u64, T) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut own = self.lock();
        let Some(at) = own.levels.iter().position(|level| level.id == id) else {
            return Err(io::Error::other(
                "the disk no longer knows what it held then",
            ));
        };
        let mut old = HashMap::new();
        // The oldest is what it was.
        for level in own.levels.drain(at..).rev() {
            old.extend(level.old);
        }
        own.levels.push(Level {
            id,
            old: HashMap::new(),
        });
        old.into_iter()
            .try_for_each(|(piece, content)| put(piece, content))
    }

    /// Nobody asks for it any more.
    pub fn end(&self, id: u64) {
        let mut own = self.lock();
        let Some(at) = own.levels.iter().position(|level| level.id == id) else {
            return;
        };
        let level = own.levels.remove(at);
        match at.checked_sub(1) {
            Some(below) => {
                let below = &mut own.levels[below].old;
                for (piece, content) in level.old {
                    below.entry(piece).or_insert(content);
                }
            }
            None => self.active.store(!own.levels.is_empty(), Ordering::SeqCst),
        }
    }
}

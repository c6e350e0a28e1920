//! Copies from the host into an image: one process, the lender, reads the sources and has
//! no Linux; another one writes what it is sent, and can open nothing by a name.
//!
//! ```text
//! lender, the reader ── socket: operations, losses ──▶ Linux, the writer
//!         │          ◀── which source, a slot is free ──       │
//!         ├────────── memory that the writer only reads: data ─┤
//!         └────────── words: stop, this file is given up ──────┘
//! ```
//!
//! Whoever has taken over the writer can say which of the sources that the user named is
//! next, by number, and when to stop; no name leads to a file. In a session the user names
//! sources while it runs: then it says paths, of which those count that are in what the
//! session was given.

mod far;
mod memory;
mod near;
#[cfg(test)]
mod tests;

pub use far::serve;
pub use memory::{Lent, Loan};
pub use near::{Chosen, Lender};

use crate::SparseMode;
use std::ffi::OsString;
use std::path::PathBuf;

/// A source as the user named it.
#[derive(Clone, Debug)]
pub struct Named {
    /// As the process understands it that reads; in a session it is made absolute.
    pub path: Vec<u8>,
    /// For messages.
    pub shown: Vec<u8>,
    /// If it is a symlink, it stands for what it points to.
    pub follow: bool,
}

/// What is read, and how.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// In the order in which they are copied.
    pub sources: Vec<Named>,
    /// Patterns of what is left out of them: see [`Excludes`](crate::patterns::Excludes).
    pub excludes: Vec<OsString>,
    /// What becomes of holes.
    pub sparse: SparseMode,
}

/// What the user wants to be read, as far as it is known before an image is met.
#[derive(Clone, Debug)]
pub enum Terms {
    /// This.
    Copy(Wanted),
    /// What each command of a session says, in these files and directories.
    Session(Vec<PathBuf>),
}

/// What the writer says.
#[derive(Clone, Copy)]
#[repr(u32)]
enum ToLender {
    /// What a session's command is about.
    Wanted = 1,
    /// Of what kind is a source?
    Look,
    /// These sources are copied.
    Open,
    /// How much is in them?
    Count,
    /// Send them.
    Read,
    /// A batch was written, and its slot is free.
    Free,
}

/// Sources of one copy, at most: more than a command line has.
const SOURCES: usize = 1 << 20;
/// Longest message to a lender.
const LONGEST: usize = 64 << 20;

//! Copies between an image and the host, by two processes. Into an image: `lender`; into
//! one that is made: `filler`.
//!
//! Copies out of an image onto the host: one process reads the image with its Linux,
//! another one, the gofer, writes, and neither can do what the other does.
//!
//! ```text
//! Linux, the reader ── socket: operations, descriptors of the image's files ──▶ gofer, the writer
//!         │          ◀── what became of them ──                                      │
//!         └────────── shared memory: the data of batches, a word that says stop ─────┘
//! ```
//!
//! Whoever has taken over the reader can say what an image could hold, and nothing else:
//! names are single components below the destination that the user named, numbers are
//! checked, and what says otherwise ends the gofer. The gofer has no Linux and looks into
//! no data. `wire.rs` has numbers and strings, `script.rs` a batch, `said.rs` the answers;
//! `near.rs` is the reader's end, `far.rs` the gofer's, `line.rs` the socket. A session's gofer
//! also makes files that the reader fills by itself (`making.rs`).

mod far;
mod files;
pub mod filler;
pub mod lender;
mod line;
mod making;
mod memory;
mod near;
mod said;
mod script;
#[cfg(test)]
mod tests;
mod wire;

pub use far::serve;
pub use making::Finish;
pub use memory::Memory;
pub use near::{Gofer, Opened, Wish};

use super::Settings;
use std::ffi::CString;
use std::path::Path;

/// What the user wants copied where, as far as it is known before an image is met: no
/// reader changes that.
#[derive(Clone, Debug)]
pub enum Terms {
    /// To this path only, like this.
    Copy {
        /// The path.
        place: Vec<u8>,
        /// How it writes.
        settings: Settings,
        /// If it is a directory: the names of what goes into it, where all are known.
        names: Option<Vec<CString>>,
        /// It becomes like a directory whose contents are copied.
        adopts: bool,
    },
    /// Wherever the jail lets it, as each command says; no devices.
    Session {
        /// That of files which the reader fills by itself.
        mode: u32,
    },
}

/// Who knows which files of the host stay as they are.
pub trait Guard: Sync {
    /// A copy of a session begins, into this directory if its files are guarded.
    fn begin(&self, place: Option<&Path>);

    /// See [`Observer::refusal`](crate::Observer::refusal).
    fn refusal(&self, below: &[u8]) -> Option<String>;
}

/// Guards nothing.
struct Nobody;

impl Guard for Nobody {
    fn begin(&self, _: Option<&Path>) {}

    fn refusal(&self, _: &[u8]) -> Option<String> {
        None
    }
}

/// What the reader says.
#[derive(Clone, Copy)]
#[repr(u32)]
enum ToGofer {
    /// What is at a path?
    Look = 1,
    /// The copy begins, there.
    Open,
    /// A file of the host, and the number that it has from now on.
    File,
    Batch,
    /// There is no more.
    End,
    /// A file that the reader fills by itself is wanted.
    Make,
    /// What is to become of that.
    Finish,
}

/// What the gofer says.
#[derive(Clone, Copy)]
#[repr(u32)]
enum FromGofer {
    Seen = 1,
    Opened,
    Said,
    /// A batch is done, and its slot free.
    Done,
    Ended,
    /// Of a lender: how much there is, and a batch of it.
    Counted,
    Batch,
    /// The file that was to be made comes with it.
    Made,
    /// It has its name, or is gone.
    Finished,
}

/// Files of the host that have numbers at once: as many as a batch can have.
const FILES: usize = super::batch::MAX_OPS;
/// Longest message: the attributes of one file can be as large.
const LONGEST: usize = 1 << 30;

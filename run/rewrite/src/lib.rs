//! Has the system calls of unmodified programs jump to a gate instead.
//!
//! [`find`] looks at the code of a file, once for each version of it ([`Cache`]).
//! [`Plan`] says what to write over it and what to put behind it. What it leaves falls
//! into a seccomp filter (`tane_jail::Net`), whose signals [`trap`] reads.
//!
//! ```text
//! elf.rs         the code of an ELF file
//! sweep.rs       where its instructions begin, and where branches lead
//! site.rs        its `syscall`s, and the class of each
//! moved.rs       what follows one and would be moved
//! trampoline.rs  the code that a patched site jumps to
//! room.rs        where that lies
//! plan.rs        all patches and trampolines of a segment
//! map.rs         from trampolines to the text that they stand for, and back
//! live.rs        a patch under threads that run the code
//! cache.rs       what is known of files
//! trap.rs        what the signals of the net say; no heap, no thread-local storage
//! ```
//!
//! Imports of ours: none.

mod cache;
mod elf;
pub mod live;
mod map;
mod moved;
mod plan;
mod room;
mod site;
mod sweep;
mod trampoline;
pub mod trap;

pub use cache::{Cache, Key, Known, Version};
pub use elf::{BadElf, Elf, Segment};
pub use map::{original, resume, Entry, Resume, NOWHERE};
pub use moved::{Moved, Piece, Step, WhyNot};
pub use plan::{Changed, Layout, Patch, Plan, When};
pub use site::{find, Class, Counts, Site, SYSCALL};

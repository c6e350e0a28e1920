//! File systems that are damaged on purpose, and what a kernel makes of them.
//!
//! ```text
//! random.rs     chance that can be had again
//! sparse.rs     images in memory, of which copies are cheap
//! damage.rs     a copy that is damaged
//!   checksums.rs  made right again, so that damage gets behind them
//! calls.rs      what is done with what is mounted, as text and by chance
//!   walk.rs       everything that there is, looked at
//! words.rs      what a kernel says when something is wrong
//! bench.rs      a kernel that meets one after the other, and goes back in between
//! wire.rs       the same from another process
//! seen.rs       what of it was new
//! hunt.rs       what to try next, and what was found
//! shrink.rs     the least of it that does the same
//! reproducer.rs what was found, as files
//! ```
//!
//! Imports of ours: `tane`.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod bench;
pub mod calls;
pub mod checksums;
mod damage;
pub mod hunt;
mod random;
pub mod reproducer;
mod seen;
pub mod shrink;
pub mod sparse;
pub mod walk;
pub mod wire;
mod words;

pub use damage::Base;
pub use random::Random;
pub use words::{place, warnings, WARNING};

//! A file system of an image, served to the host's kernel by FUSE.
//!
//! - `point`: the mount, made and ended by a process of its own
//! - `link`: between that process and this one
//! - `connection`, `greeting`: the threads that serve it; what they agree on first
//! - `requests`, `answer`: the protocol's requests, each answered by an operation
//! - `served`, `directory`, `data`, `ioctl`: the operations
//! - `table`, `node`, `listing`: which file is which
//! - `turns`: which thread takes requests
//! - `spare`, `ahead`, `bare`: what it does when there is none, to have fewer of them
//! - `attr`, `caller`, `death`: words of the protocol; on whose behalf; the end
//!
//! Nobody else changes the image meanwhile, so that the host's kernel may keep
//! all it was told: names, attributes, data. Files are never opened or closed
//! for it: the answers to OPEN and CREATE say that it need not ask.

mod ahead;
mod answer;
mod attr;
pub mod background;
mod bare;
mod caller;
mod connection;
mod data;
mod death;
mod directory;
mod greeting;
mod ioctl;
mod link;
mod listing;
mod node;
mod point;
mod requests;
mod served;
mod spare;
mod table;
mod turns;

pub use connection::Connection;
pub use death::Death;
pub use ioctl::SYNC;
pub use link::{Link, Word};
pub use point::{is_dead, mount, unmount, Busy, Wish, DEVICE, HELPER};
pub use served::{Manner, Served};

/// The protocol's number for the root.
const ROOT: u64 = 1;

/// How long the host's kernel may believe what it was told.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 86400);

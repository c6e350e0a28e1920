//! What can back a disk: one trait, one file per kind.
//!
//! ```text
//! backend.rs    Backend: the contract
//! buffers.rs    lists of guest buffers, and copies to and from them
//! raw.rs        a file or block device of the host
//!   lock.rs       its lock while in use
//!   transfer.rs   reads and writes to the last byte, or at once or not at all
//!   direct.rs     past the host's page cache (O_DIRECT)
//! ram.rs        memory, allocated on first touch
//! callback.rs   the caller's functions
//! overlay.rs    writes kept in memory over any other backend
//! fault.rs      a log of every change and errors on demand, for tests
//! power.rs      what such a log leaves after a power cut
//! ```

mod backend;
mod buffers;
mod callback;
mod direct;
mod fault;
mod lock;
mod overlay;
pub mod power;
mod ram;
mod raw;
mod transfer;

pub use backend::{Backend, HostRange};
pub use buffers::{buffer, buffer_mut, clear, gather, scatter, slice, total, Buffers};
pub use callback::{Callback, Callbacks};
pub use fault::{Failure, Fault, Operation};
pub use overlay::Overlay;
pub use power::Event;
pub use ram::Ram;
pub use raw::{Access, Raw};

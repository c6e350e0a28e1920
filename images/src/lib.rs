//! What can back a disk: one trait, one file per kind.
//!
//! ```text
//! backend.rs    Backend: the contract
//! buffers.rs    lists of guest buffers, and copies to and from them
//! host_reads.rs   bytes that files of the host have: many with few calls
//! raw.rs        a file or block device of the host
//!   lock.rs       its lock while in use
//!   transfer.rs   reads and writes to the last byte, or at once or not at all
//!   direct.rs     past the host's page cache (O_DIRECT)
//! ram.rs        memory, allocated on first touch
//! callback.rs   the caller's functions
//! overlay.rs    writes kept in memory over any other backend
//! redo/         changes that are made as a whole, by a file beside the image
//! options.rs    how an image is opened
//!   open.rs       what it consists of, by its content
//!   format.rs     which container it is
//!   qcow2.rs      QEMU's, by the imago crate
//!   vmdk/ vhd.rs vhdx/   VMware's and Microsoft's
//!     blocks.rs     what those three have in common
//!     pages.rs      their tables, read when needed
//!     concat.rs     a disk in several files
//!   http/         a file on a web server
//!   stream/       gzip, xz, zstd, bzip2: read in pieces, or unpacked
//!   temporary.rs  what has to be had as a whole first
//! fault.rs      a log of every change and errors on demand, for tests
//! power.rs      what such a log leaves after a power cut
//! ```

mod backend;
mod blocks;
mod buffers;
mod callback;
mod concat;
mod direct;
mod fault;
mod format;
mod fuzz;
mod host_reads;
mod http;
mod lock;
mod open;
mod options;
mod overlay;
mod pages;
pub mod power;
mod qcow2;
mod ram;
mod raw;
mod redo;
mod stream;
mod temporary;
mod transfer;
mod vhd;
mod vhdx;
mod vmdk;

pub use backend::{Backend, HostRange};
pub use buffers::{buffer, buffer_mut, clear, gather, scatter, slice, total, Buffers};
pub use callback::{Callback, Callbacks};
pub use fault::{Failure, Fault, Operation};
pub use format::{detect, Format};
#[doc(hidden)]
pub use fuzz::fuzz_container;
pub use host_reads::HostReads;
pub use http::{is_beside, Login};
pub use open::open_backend;
pub use options::{Image, ImageOptions, Layer};
pub use overlay::Overlay;
pub use power::Event;
pub use ram::Ram;
pub use raw::{Access, Raw};
pub use redo::{redo_path, Redo};
pub use stream::decompressed;

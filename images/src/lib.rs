//! What can back a disk: one trait, one file per kind.
//!
//! ```text
//! backend.rs    Backend: the contract
//! host_files.rs   who opens files of the host
//! host_reads.rs   bytes that files of the host have: many with few calls
//! raw.rs        a file or block device of the host
//!   lock.rs       its locks while in use: flock and QEMU's
//!   host_use.rs   what the host itself has it for
//!   transfer.rs   reads and writes to the last byte, or at once or not at all
//!   direct.rs     past the host's page cache (O_DIRECT)
//! ram.rs        memory, allocated on first touch
//! callback.rs   the caller's functions
//! overlay.rs    writes kept in memory over any other backend
//!   undo.rs       what disks of memory held before
//! redo/         changes that are made as a whole, by a file beside the image
//! options.rs    how an image is opened
//!   open.rs       what it is, by its content
//!   neighbours.rs   the files that it names
//!   errors.rs       what is wrong with which
//!   format.rs     which containers there are
//!   detect.rs     which one it is
//!   qcow2.rs      QEMU's, by the imago crate
//!   vmdk/ vhd.rs vhdx/   VMware's and Microsoft's
//!   vdi.rs qcow.rs qed.rs dmg/ ewf.rs   others', only read
//!     blocks.rs     what those have in common
//!     pages.rs      their tables, read when needed
//!     bitmap.rs     which sectors they have
//!     parents.rs    what Microsoft's are above
//!     kept.rs       what was unpacked
//!   crypt/        what QEMU encrypts in its own
//!   secrets.rs    what opens that
//!   split.rs      pieces of any of them
//!   android.rs    Android's sparse image
//!     concat.rs     a disk in several files, or parts
//!   foreign.rs    what is known and not read
//!   http/         a file on a web server
//!   nbd/          an export of an NBD server
//!   netfs/        a connection to a server of files (9p, NFS), which no disk is made of
//!   server.rs     servers, and connections to them
//!     limit.rs      how long something may take
//!   remote.rs     which names are addresses on servers
//!     escapes.rs    signs in them that stand for others
//!   stream/       gzip, xz, zstd, bzip2: read in pieces, or unpacked
//! create.rs     a new image in a container
//!   temporary.rs  what has to be had as a whole first
//! fault.rs      a log of every change and errors on demand, for tests
//! power.rs      what such a log leaves after a power cut
//! ```
//!
//! Imports of ours: `tane-buffers`, `tane-luks`.

mod android;
mod backend;
mod bitmap;
mod blocks;
mod callback;
mod concat;
mod create;
mod crypt;
mod detect;
mod direct;
mod dmg;
mod errors;
mod escapes;
mod ewf;
mod family;
mod fault;
mod foreign;
mod format;
mod fuzz;
mod host_files;
mod host_reads;
mod host_use;
mod http;
mod kept;
mod limit;
mod lock;
mod nbd;
mod neighbours;
mod netfs;
mod open;
mod options;
mod overlay;
mod pages;
mod parents;
mod plain;
pub mod power;
mod qcow;
mod qcow2;
mod qed;
mod ram;
mod raw;
mod redo;
mod remote;
mod secrets;
mod server;
mod split;
mod stream;
mod temporary;
mod transfer;
mod undo;
mod vdi;
mod vhd;
mod vhdx;
mod vmdk;

pub use backend::{Backend, HostRange};
pub use callback::{Callback, Callbacks};
pub use create::create;
pub use crypt::Encryption;
pub use detect::detect;
#[doc(hidden)]
pub use errors::readable;
pub use errors::Locked;
pub use fault::{Failure, Fault, Operation};
pub use format::Format;
#[doc(hidden)]
pub use fuzz::fuzz_container;
pub use host_files::{open_by, open_host_file};
pub use host_reads::HostReads;
pub use http::{is_beside, Login};
pub use lock::{Lock, LockWait};
pub use nbd::{NbdConnection, NbdExport};
pub use netfs::{Identity, NetFsConnection, Protocol};
pub use options::{Image, ImageOptions, Layer, SILENCE};
pub use overlay::Overlay;
pub use power::Event;
pub use qcow2::grow_qcow2;
pub use ram::Ram;
pub use raw::{Access, Raw};
pub use redo::{redo_path, Redo};
pub use remote::{is_nbd, is_netfs, is_remote, scheme};
pub use split::{is_first_piece, pieces_behind};
pub use stream::{compression, decompressed, most_unpacked, Packer};
use tane_buffers as buffers;
pub use tane_buffers::{buffer, buffer_mut, clear, gather, scatter, slice, total, Buffers};
pub use temporary::{set_aside as set_temporary_files_aside, Spool};
pub use undo::Undo;

/// A jail is about to be entered that lets this file be opened, but not be asked who
/// else has it: what there is to know of that is looked up now.
pub fn look_who_has(path: &std::path::Path, write: bool) {
    host_use::remember(path, write);
    lock::look(path);
}

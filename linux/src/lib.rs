//! Linux, seen through its system calls.
//!
//! The host's kernel and the kernel that serves an image are both Linux, so what is
//! above is written once: [`Linux`] is somebody who answers system calls, [`Sys`] gives
//! them types, [`Fd`] owns a descriptor. Nothing here knows of images or terminals.
//!
//! ```text
//! Linux                     call(number, arguments): the library's kernel, or Host
//!   └── Sys                 calls/: the calls by their names, with slices and strings
//!         ├── Fd, Root      what is open; where paths start
//!         ├── Stat, Kind    what a file is
//!         ├── Entries, Xattrs, Flags
//!         └── extents, sharing, lacking, trim
//! ```
//!
//! Errors are bare [`Errno`]s: whoever calls knows what it was about. Any thread may
//! call; a call blocks its thread when Linux blocks.
//!
//! Imports of ours: none.

mod calls;
mod dir;
mod errno;
mod extents;
mod flags;
mod host;
mod lacking;
mod root;
mod sharing;
mod stat;
mod trim;
mod xattr;

pub use calls::{Config, Descriptor, Fd, FlagsData, Name, RawStatFs, Sync, Sys, XattrOf};
pub use dir::{is_safe_name, Entries, Entry, Record};
pub use errno::{Errno, Result};
pub use extents::{
    shared_parts, shared_parts_from, sole_extent, Content, Extent, Extents, SharedPart,
};
pub use flags::{folds_case, is_plain, Flags, FsXattr};
pub use host::Host;
pub use lacking::{allow_holes, has_links, strips_dots};
pub use root::{base_name, join, split, Root};
pub use sharing::{can_share, is_subvolume};
pub use stat::{Kind, Stat, Time};
pub use trim::trim;
pub use xattr::{grow, names, with_proc_path, Packed, Target, Xattrs};

/// A Linux kernel that answers x86-64 system calls.
pub trait Linux: Send + std::marker::Sync {
    /// Performs system call `nr`; a negative errno is a failure.
    ///
    /// # Safety
    /// The arguments must be what the call expects; pointers must be valid for
    /// what the kernel does with them.
    unsafe fn call(&self, nr: i64, args: [u64; 6]) -> i64;

    /// Nobody else uses this kernel's caches, so what is read once may go.
    fn is_ours(&self) -> bool {
        false
    }
}

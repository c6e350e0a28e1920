//! Linux, seen through its system calls.
//!
//! The host's kernel and the kernel that serves an image are both Linux, so
//! everything above this module is written once: a [`Side`] is somebody who
//! answers system calls, [`Sys`] gives them types, [`Fd`] owns a descriptor.

mod calls;
mod dir;
mod errno;
mod flags;
mod host;
mod lacking;
mod root;
#[cfg(feature = "fuse")]
mod serve;
mod sharing;
mod stat;
mod trim;
mod xattr;

#[cfg(feature = "fuse")]
pub use calls::Name;
pub use calls::Sys;
pub use dir::{is_safe_name, Entries};
pub use errno::Errno;
pub use flags::Flags;
pub use host::Host;
pub use lacking::{allow_holes, has_links, strips_dots};
pub use root::{base_name, join, split, Root};
pub use sharing::{can_share, is_subvolume, shared_parts};
pub use stat::{Kind, Stat, Time};
pub use trim::trim;
pub use xattr::{Packed, Target, Xattrs};
#[cfg(feature = "fuse")]
pub use {flags::folds_case, serve::FlagsData};

use tane::Place;

/// A Linux kernel that answers x86-64 system calls.
pub trait Side: Send + Sync {
    /// Performs system call `nr`; a negative errno is a failure.
    ///
    /// # Safety
    /// The arguments must be what the call expects; pointers must be valid for
    /// what the kernel does with them.
    unsafe fn call(&self, nr: libc::c_long, args: [usize; 6]) -> isize;

    /// Nobody else uses this kernel's caches, so what is read once may go.
    fn is_ours(&self) -> bool {
        false
    }

    /// Where the host has the bytes of a file system of this kernel's, if they lie
    /// unchanged in a file of the host while this side is open.
    fn place(&self) -> Option<&Place> {
        None
    }
}

/// A descriptor of one side, closed when dropped.
pub struct Fd<'a> {
    sys: Sys<'a>,
    raw: i32,
}

impl<'a> Fd<'a> {
    pub fn new(sys: Sys<'a>, raw: i32) -> Self {
        Fd { sys, raw }
    }

    pub fn sys(&self) -> Sys<'a> {
        self.sys
    }

    /// Somebody else closes it.
    pub fn into_raw(self) -> i32 {
        std::mem::ManuallyDrop::new(self).raw
    }

    pub fn raw(&self) -> i32 {
        self.raw
    }
}

impl Drop for Fd<'_> {
    fn drop(&mut self) {
        self.sys.close(self.raw);
    }
}

//! The system calls that are used here, with types.

use crate::errno::{Errno, Result};
use crate::Linux;
use std::ffi::{CStr, CString};
use std::ops::Deref;

/// A path or name as the kernel wants it. A NUL inside is EINVAL.
pub struct Name(CString);

impl Name {
    /// That of these bytes.
    pub fn new(bytes: &[u8]) -> Result<Name> {
        CString::new(bytes)
            .map(Name)
            .map_err(|_| Errno(libc::EINVAL))
    }
}

impl Deref for Name {
    type Target = CStr;
    fn deref(&self) -> &CStr {
        &self.0
    }
}

/// A kernel with typed calls. Each method is the system call of its name; what takes a
/// directory and a name takes an absolute path as well, or an empty one where
/// AT_EMPTY_PATH is meant.
pub struct Sys<'a, L: Linux + ?Sized = dyn Linux + 'a>(pub &'a L);

impl<L: Linux + ?Sized> Clone for Sys<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Linux + ?Sized> Copy for Sys<'_, L> {}

/// A call; integers are sign-extended, pointers must be of live objects.
macro_rules! call {
    ($sys:expr, $nr:expr $(, $a:expr)*) => {{
        let mut args = [0u64; 6];
        let given: &[u64] = &[$($a as u64),*];
        args[..given.len()].copy_from_slice(given);
        // SAFETY: every pointer in these calls is of a live CStr, slice or structure
        // of the size the kernel expects, borrowed for the length of the call.
        let result = unsafe { $sys.0.call($nr, args) };
        if result < 0 { Err($crate::Errno(-result as i32)) } else { Ok(result as usize) }
    }};
}

// After the macro, which they use.
mod attributes;
mod data;
mod descriptors;
mod entries;
mod fd;
mod mounts;
mod serve;
mod xattrs;

pub use attributes::RawStatFs;
pub use data::Sync;
pub use fd::{Descriptor, Fd};
pub use mounts::Config;
pub use serve::FlagsData;
pub use xattrs::XattrOf;

impl<'a> Sys<'a> {
    /// openat(2) below a directory that is no [`Fd`].
    pub fn openat_raw(self, dir: i32, path: &CStr, flags: i32, mode: u32) -> Result<Fd<'a>> {
        self.open_number(dir, path, flags, mode)
            .map(|fd| Fd::new(self, fd))
    }

    /// openat(2), closed on exec.
    pub fn openat(self, dir: &Fd, name: &CStr, flags: i32, mode: u32) -> Result<Fd<'a>> {
        self.openat_raw(dir.raw(), name, flags, mode)
    }

    /// openat2(2), closed on exec; `resolve`: RESOLVE_ bits.
    pub fn openat2(self, dir: &Fd, path: &CStr, flags: i32, resolve: u64) -> Result<Fd<'a>> {
        self.open2_number(dir, path, flags, 0, resolve)
            .map(|fd| Fd::new(self, fd))
    }

    /// A further descriptor of the same open file.
    pub fn duplicate(self, fd: &Fd) -> Result<Fd<'a>> {
        self.dup_number(fd).map(|fd| Fd::new(self, fd))
    }
}

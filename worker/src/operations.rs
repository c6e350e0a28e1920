//! All that a worker can be asked. From this list come the traits that callers use,
//! their implementation by messages, and what takes the messages.
//!
//! A number is never used for something else. Whoever changes an operation or a structure
//! of it raises `VERSION` in `area.rs`.

use crate::failure::{Failure, Result};
use crate::objects::Objects;
use crate::records::{SharedPart, Stat, StatFs, Time, VolumeRecord};
use crate::wire::{List, Reader, Wire, Writer};
use std::ffi::OsStr;

/// Those that do more than pass arguments and an answer: they make objects, or move
/// data. `remote.rs` and `serve.rs` have their two sides.
pub(crate) mod special {
    /// Open an image, in a jail: [`Setup`](crate::open::Setup). The first.
    pub const OPEN: u32 = 1;
    /// Drop everything. The last.
    pub const END: u32 = 2;
    /// `Option<&str>` selector, `MountHow`: the handle, its mount point, its root.
    pub const MOUNT: u32 = 3;
    /// Ends the handle.
    pub const UNMOUNT: u32 = 4;
    /// Path, flags, mode: the handle, its descriptor.
    pub const OPEN_FILE: u32 = 5;
    /// Length, offset; the data lies at the start of the answer.
    pub const PREAD: u32 = 6;
    pub const READ: u32 = 7;
    /// Offset, bytes.
    pub const PWRITE: u32 = 8;
    pub const WRITE: u32 = 9;
    /// Room, paths: how each fared, in eight bytes, then all data.
    pub const READ_FILES: u32 = 10;
    /// Path, flags ([`crate::list`]): the handle or 0, and the first entries.
    pub const LIST: u32 = 11;
    /// More of them; a handle that is done with is ended.
    pub const LIST_MORE: u32 = 12;
    /// Offset, whence.
    pub const LSEEK: u32 = 13;
    /// A number and what the arguments are or point to; what the kernel writes lies in
    /// the answer.
    pub const SYSCALL: u32 = 14;
}

macro_rules! operations {
    ($( $(#[$doc:meta])* $trait:ident for $object:ident by $get:ident {
        $( $(#[$note:meta])* $number:literal $name:ident
            ( $($argument:ident : $type:ty),* ) -> $answer:ty; )*
    } )*) => {
        $(
        $(#[$doc])*
        pub trait $trait {
            $( $(#[$note])* fn $name(&self, $($argument: $type),*) -> Result<$answer>; )*
        }

        impl $trait for crate::remote::$object {
            $( fn $name(&self, $($argument: $type),*) -> Result<$answer> {
                #[allow(unused_mut)]
                let mut call = self.call($number)?;
                $( $argument.put(&mut call.arguments())?; )*
                call.answer()
            } )*
        }
        )*

        /// Do one of them here.
        pub(crate) fn dispatch(
            number: u32,
            objects: &Objects,
            handle: u32,
            from: &mut Reader,
            to: &mut Writer,
        ) -> Result<()> {
            match number {
                $($( $number => {
                    $( let $argument = <$type as Wire>::get(from)?; )*
                    let object = objects.$get(handle)?;
                    let answer = $trait::$name(&*object, $($argument),*)?;
                    Wire::put(&answer, to)
                } )*)*
                _ => Err(Failure::new(libc::ENOSYS, "the worker knows no such operation")),
            }
        }
    };
}

operations! {
    /// What can be asked of a kernel, here or in a worker.
    KernelCalls for Image by kernel {
        20 halt() -> ();
        21 is_alive() -> bool;
        22 dmesg() -> String;
        23 last_words() -> String;
        24 trim() -> ();
    }

    /// What can be asked of an image, here or in a worker.
    ImageCalls for Image by image {
        30 volumes() -> List<VolumeRecord>;
    }

    /// What can be asked of a mount by path, here or in a worker. Flags are 0 or
    /// `TANE_NOFOLLOW` (1).
    Calls for Mount by mount {
        40 sync() -> ();
        41 statfs() -> StatFs;
        42 stat(path: &OsStr, flags: i32) -> Stat;
        43 chown(path: &OsStr, uid: u32, gid: u32, flags: i32) -> ();
        44 utimens(path: &OsStr, atime: Time, mtime: Time, flags: i32) -> ();
        45 chmod(path: &OsStr, mode: u32) -> ();
        46 mkdir(path: &OsStr, mode: u32) -> ();
        47 mknod(path: &OsStr, mode: u32, rdev: u64) -> ();
        48 truncate(path: &OsStr, length: u64) -> ();
        49 link(path: &OsStr, new: &OsStr) -> ();
        50 symlink(target: &OsStr, path: &OsStr) -> ();
        51 unlink(path: &OsStr) -> ();
        52 rmdir(path: &OsStr) -> ();
        53 remove_all(path: &OsStr) -> ();
        54 rename(path: &OsStr, new: &OsStr, flags: u32) -> ();
        55 readlink(path: &OsStr) -> Vec<u8>;
        /// ENODATA if there is none.
        56 getxattr(path: &OsStr, name: &OsStr, flags: i32) -> Vec<u8>;
        /// Names, each with a NUL.
        57 listxattr(path: &OsStr, flags: i32) -> Vec<u8>;
        58 setxattr(path: &OsStr, name: &OsStr, value: &[u8], how: i32, flags: i32) -> ();
        59 removexattr(path: &OsStr, name: &OsStr, flags: i32) -> ();
    }

    /// What can be asked of an open file, here or in a worker, beside its data.
    FileCalls for File by file {
        71 fsync() -> ();
        72 fdatasync() -> ();
        73 fstat() -> Stat;
        74 ftruncate(length: u64) -> ();
        75 fallocate(mode: i32, offset: u64, len: u64) -> ();
        /// FS_ bits, and the project in the upper half.
        76 flags() -> u64;
        77 set_flags(flags: u32) -> ();
        78 set_project(project: u32) -> ();
        /// Those that end behind `from`, in order, as many as there is room for.
        79 shared_parts(from: u64) -> List<SharedPart>;
    }
}

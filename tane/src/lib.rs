//! Linux as a library.
//!
//! A real Linux kernel runs inside this process, without privileges and without
//! a virtual machine; a system call is a function call. This crate boots it,
//! gives it disk images and offers the files on them the way [`std::fs`] offers
//! the host's.
//!
//! **It is not jailed here**: code that a hostile image gets to run in that kernel has all
//! rights of this process. Of images that nobody vouches for, the crate `tane-jailed` has
//! the same trees and files by a kernel in a jailed process of its own; begin with that.
//!
//! ```no_run
//! use tane::{DiskOptions, Kernel, MountOptions};
//!
//! let kernel = Kernel::boot()?;
//! let disk = kernel.open_disk("disk.img", &DiskOptions::new())?;
//! let mount = MountOptions::new().mount(&kernel, disk.device())?;
//! mount.write("/etc/hostname", "example\n")?;
//! for entry in mount.read_dir("/etc")? {
//!     println!("{}", entry?.file_name().display());
//! }
//! mount.unmount()?;
//! # Ok::<(), tane::Error>(())
//! ```
//!
//! ```text
//! Kernel ── Disk ── Partition        boots; has disks
//!    ├───── Volumes                  LUKS, BitLocker, LVM2, RAID on them
//!    ├───── net                      cards, addresses, TCP and UDP
//!    ├───── Image                    all of this for one image, as the command does it
//!    └───── Mount ─ Tree             paths, confined to the mount
//!                    ├── Dir         entries by name: the fast way
//!                    └── File        read, write, seek, sync; Map: as memory
//! ```
//!
//! Rules that hold everywhere:
//! - Sizes and offsets are in bytes. Names and paths are bytes, not text.
//! - Everything may be used from several threads at once.
//! - A handle keeps alive what it belongs to; dropping it closes it.
//! - New files get exactly the mode that was asked for; there is no umask.
//! - [`Error`] has the errno, the operation and the path. Once a kernel is gone
//!   everything answers ESHUTDOWN, and [`Kernel::last_words`] says why.
//! - Descriptors and paths given to [`Kernel::syscall`] are the kernel's own.
//!
//! Imports of ours: `tane-devices`, `tane-host`, `tane-images`, `tane-jail`,
//! `tane-linux`, `tane-luks`, `tane-net`.

mod address;
mod ages;
mod bound;
mod buffer;
mod builder;
mod checkpoint;
mod companion;
mod dir;
mod disk;
mod error;
mod extents;
mod file;
mod flags;
mod held;
mod host_blocks;
mod image;
mod kernel;
mod kernel_image;
mod label;
mod lead;
mod machine;
mod map;
mod merge;
mod metadata;
mod missing;
mod mount;
mod mount_options;
pub mod net;
mod netfs;
mod open_options;
mod partition;
mod path;
mod poll;
mod probe;
mod progress;
mod read_dir;
mod read_files;
mod region;
mod remove;
mod size;
mod statfs;
mod sys;
mod table;
mod time;
mod tree;
mod trim;
mod volumes;
mod watch;
mod xattr;

pub use address::{is_netfs, is_remote, Address, Files, HostFiles, ImagePath, Selector, Which};
pub use buffer::Buffer;
pub use builder::{provide, Builder};
pub use checkpoint::Checkpoint;
pub use dir::Dir;
pub use disk::{Disk, DiskOptions};
pub use error::{errno_of, errno_or_guess, Error, Result};
pub use extents::Extents;
pub use file::File;
pub use held::held_by;
pub use host_blocks::HostBlocks;
pub use image::file::DiskImage;
pub use image::jail::{directory_of, network_files, ImageFiles};
pub use image::layers::layer_of;
pub use image::nested::{may_lead_on, split, Split};
pub use image::open::{BootedImage, OpenedImage, ToBoot};
pub use image::options::{ImageHooks, ImageOptions};
pub use image::{Image, Outer};
pub use kernel::Kernel;
pub use kernel_image::{
    default_image, fuzz_image, lab_image, places_beside, remote_image, tiny_image,
    tiny_image_beside,
};
pub use machine::Remote;
pub use map::{Map, MapOptions};
pub use metadata::{FileType, Metadata};
pub use mount::Mount;
pub use mount_options::MountOptions;
pub use netfs::FileServer;
pub use open_options::OpenOptions;
pub use partition::Partition;
pub use probe::FileSystem;
pub use progress::Progress;
pub use read_dir::{DirEntry, Entry, ReadDir};
#[doc(hidden)]
pub use size::parse_size;
pub use statfs::StatFs;
pub use time::{SetTime, SetTimes, Timestamp};
pub use tree::Tree;
#[doc(hidden)]
pub use volumes::fuzz_volumes;
pub use volumes::{Protector, ProtectorKind, Verity, Volume, VolumeKind, VolumeOptions, Volumes};
pub use watch::{Ready, Watch};

pub use tane_host::{prepare, CallCount, ProgramCounts, MAX_KERNELS, MEMORY};
pub use tane_linux::{Content, Extent, SharedPart};

/// What makes jumps of programs' system calls ([`Kernel::intercept`]).
pub mod programs {
    pub use tane_host::{
        CallEnd, Interception, ProgramCall, ProgramCode, ProgramText, ProgramTracer, GATE,
    };
}

/// What can back a disk: the trait, and implementations of it.
pub use tane_images as images;
/// Confines this process, so that hostile images can do nothing outside of it.
pub use tane_jail as jail;
/// System calls with types, on a [`Kernel`] or the host.
pub use tane_linux as linux;

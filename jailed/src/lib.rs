//! Files in images, by a Linux that runs jailed in a process of its own.
//!
//! This is the crate to begin with. Code that a hostile image gets to run in Linux is in a
//! process that can open no file, use no network and start no program; the calling process
//! has all of its rights, and none of the image's code.
//!
//! ```no_run
//! use tane_jailed::{Image, MountOptions};
//!
//! let image = Image::open("disk.qcow2@2")?;
//! let mount = image.mount(None, &MountOptions::new())?;
//! print!("{}", mount.read_to_string("/etc/os-release")?);
//! for entry in mount.read_dir("/etc")? {
//!     let entry = entry?;
//!     println!("{} {}", entry.path().display(), entry.metadata()?.len());
//! }
//! # Ok::<(), tane_jailed::Error>(())
//! ```
//!
//! To write, say so, and unmount at the end:
//!
//! ```no_run
//! use tane_jailed::{Image, ImageOptions, MountOptions, Options};
//!
//! let mut options = Options::new();
//! options.image(ImageOptions { write: true, ..ImageOptions::new() });
//! let image = Image::open_with("disk.img", &options)?;
//! let mount = image.mount(None, &MountOptions::new())?;
//! mount.write("/etc/hostname", "example\n")?;
//! mount.unmount()?;
//! # Ok::<(), tane_jailed::Error>(())
//! ```
//!
//! A [`Mount`] is a [`Tree`], and files, directories, entries and errors are those of the
//! crate `tane`, here [`direct`]: what is written for one works with the other. That one
//! boots a kernel in the calling process, with all of its rights, for images that somebody
//! vouches for; it alone has disks, networks, memory shared with a kernel
//! ([`direct::Map`], [`direct::Buffer`]: here ENOSYS) and any system call. A call of it is
//! a function call, one of these is some messages to another process and back:
//! `cargo run --release -p tane-jailed --example jailed_cost` says what that is.
//!
//! The worker's program, `tane-worker`, is looked for beside this program, where `make
//! install` puts it seen from there, and where the sources were built; or [`Options`] and
//! the environment variable TANE_WORKER name it.
//!
//! ```text
//! image.rs    an image, and the process that serves it
//! mount.rs    a file system of it: a tree whose calls go there
//! volume.rs   what a file system can be on
//! ```
//!
//! Imports of ours: `tane`, `tane-linux`, `tane-worker`.

mod image;
mod mount;
mod volume;

pub use image::Image;
pub use mount::Mount;
pub use volume::Volume;

pub use tane::{
    Dir, DirEntry, Entry, Error, File, FileType, ImageOptions, Metadata, MountOptions, OpenOptions,
    ReadDir, Result, Selector, SetTime, SetTimes, StatFs, Timestamp, Tree, Verity, VolumeKind,
    Which,
};
pub use tane_worker::Options;

/// The same with a kernel in the calling process, which is not jailed.
pub use tane as direct;

/// What a worker said, as an error of this library.
fn told(failure: tane_worker::Failure) -> Error {
    Error::told(failure.errno, failure.text)
}

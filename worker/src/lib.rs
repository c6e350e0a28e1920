//! An image, served by a Linux that runs jailed in a process of its own.
//!
//! Code that a hostile image gets to run is in the process that runs the kernel. A
//! program that does other things as well does not want to be that process: here it
//! starts a *worker*, and asks it for files over memory that both share. The crate
//! `tane-jailed` offers that to Rust with the types of `tane`; here is what it, and the C
//! library, are made of: calls that are one message each.
//!
//! ```no_run
//! use tane_worker::{Calls, Options};
//!
//! let image = Options::new().open("disk.qcow2")?;
//! let mount = image.mount(Some("2"), &Default::default())?;
//! let file = mount.open_file("etc/os-release".as_ref(), libc::O_RDONLY, 0)?;
//! let mut text = [0; 4096];
//! let n = file.pread(&mut text, 0)?;
//! mount.unmount()?;
//! # Ok::<(), tane_worker::Failure>(())
//! ```
//!
//! ```text
//! operations.rs  all that a worker can be asked, once, for both sides
//!   wire.rs        arguments and answers as bytes
//!     fuzz.rs        what fuzzers take apart
//!   records.rs     those that are structures
//!   local.rs       what they do, on a kernel in this process
//! area.rs        the memory that both share: slots, one for each call under way
//!   wait.rs        how either waits for the other
//! client.rs      a worker as its caller sees it: its slots, its death
//!   call.rs        calls, and their answers
//!   ended.rs       what is done with, as it is told
//!   spawn.rs       how it is started, and ended with its caller
//!   fork.rs        what holds after a fork of the caller
//!   options.rs     how an image is opened by one
//!   image_options.rs  that of the image, as bytes
//!   remote.rs      images, mounts, files in it
//!     listing.rs     directories
//!     read_ahead.rs  what is read with what was asked for
//! serve.rs       the worker: takes calls
//!   open.rs        how it gets into its jail, and its image
//!   objects.rs     what it has open
//!   syscalls.rs    those that cross, for copies and trees
//!   list.rs        whole directories and trees at once
//!   take_over.rs   how its process begins
//! servers/       a third process, for images on web servers
//! ```
//!
//! The caller trusts nothing that the worker writes: it is copied before it is
//! looked at, and what cannot be is EIO. `docs/jail.md` has the rest.
//!
//! Imports of ours: `tane`, `tane-linux`.

mod area;
mod call;
mod client;
mod ended;
mod failure;
mod fork;
mod fuzz;
mod image_options;
mod list;
mod listing;
mod local;
mod objects;
mod open;
mod operations;
mod options;
mod read_ahead;
mod records;
mod remote;
mod serve;
pub mod servers;
mod spawn;
mod syscalls;
mod take_over;
mod wait;
mod wire;

pub use failure::{Failure, Result};
#[doc(hidden)]
pub use fuzz::fuzz_answers;
pub use list::{Entry, Lister, Listing, STAT, WALK};
pub use listing::Dir;
pub use local::{open_file, raw};
pub use operations::{Calls, FileCalls, ImageCalls, KernelCalls};
pub use options::Options;
pub use records::{MountHow, SharedPart, Stat, StatFs, Time, VolumeRecord, KEEP, NOW};
pub use remote::{File, Image, Mount};
pub use serve::serve;
pub use wire::List;

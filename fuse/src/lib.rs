//! A mount of this process, shown to the host: its kernel asks by FUSE, and all programs
//! see the files of an image below a directory of theirs.
//!
//! ```no_run
//! use tane_fuse::HostMountOptions;
//!
//! let image = tane::Image::open("disk.img")?;
//! let mount = image.mount(None, &tane::MountOptions::new())?;
//! let shown = HostMountOptions::new().mount(mount, "/mnt")?;
//! println!("{}", std::fs::read_to_string("/mnt/etc/hostname")?);
//! shown.unmount()?;
//! shown.wait()?.unmount()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`HostMount`] answers by threads of this process, also for a Linux that runs jailed in a
//! process of its own (`tane-jailed`): each answer takes messages to that then. `tane mount`
//! has two processes: one mounts, and the other, in a jail, looks into the image and serves.
//!
//! - `host_mount`: a mount that is served by threads of this process; `ended`: their end
//! - `shown`: what can be
//! - `point`: the mount, made and ended by a process of its own
//! - `link`: between that process and this one
//! - `connection`, `greeting`: the threads that serve it; what they agree on first
//! - `requests`, `answer`: the protocol's requests, each answered by an operation
//! - `death`, `error`: what goes wrong
//! - `served`, `directory`, `data`, `ioctl`: the operations
//! - `table`, `node`, `listing`: which file is which
//! - `turns`: which thread takes requests
//! - `spare`, `prefetch`, `bare`: what it does when there is none, to have fewer of them
//! - `attr`, `caller`: words of the protocol; on whose behalf
//!
//! Nobody else changes the image meanwhile, so that the host's kernel may keep
//! all it was told: names, attributes, data. Files are never opened or closed
//! for it: the answers to OPEN and CREATE say that it need not ask. In a process that uses
//! the image itself as well, what it changes may be seen late or not at all outside.
//!
//! Imports of ours: `tane`, `tane-linux`.

mod answer;
mod attr;
mod bare;
mod caller;
mod connection;
mod data;
mod death;
mod directory;
mod ended;
mod error;
mod greeting;
mod host_mount;
mod ioctl;
mod link;
mod listing;
mod node;
mod point;
mod prefetch;
mod requests;
mod served;
mod shown;
mod spare;
mod table;
mod turns;

pub use connection::Connection;
pub use death::Death;
pub use error::{Error, Result};
pub use host_mount::{HostMount, HostMountOptions};
pub use ioctl::SYNC;
pub use link::{Link, Word};
pub use point::{is_dead, mount, unmount, usable, Busy, Wish};
pub use served::{Manner, Served};
pub use shown::Shown;

/// The protocol's number for the root.
const ROOT: u64 = 1;

/// How long the host's kernel may believe what it was told.
const FOREVER: std::time::Duration = std::time::Duration::from_secs(10 * 365 * 86400);

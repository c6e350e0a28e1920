//! Images on servers. A worker's jail has no network, so a process of its own talks to web
//! servers and servers of NBD, in which no Linux runs and which never sees what is in the image:
//!
//! ```text
//! caller ──▶ servers: HTTP, TLS, names and passwords   (jail: the network, certificates)
//!    │               NBD                               (jail: what was connected before)
//!    │          │ a socket: open this address; bytes of what is open
//!    └──────▶ worker: containers, Linux                (jail: nothing)
//! ```
//!
//! The worker may be hostile. What it can have opened are the addresses that the caller
//! named, without the passwords, and files beside them, until Linux is about to see the
//! image; then it can read what is open, and write what the caller wants written. What
//! servers say is bytes to it.
//!
//! ```text
//! frame.rs    messages on the socket
//! named.rs    what may be opened
//! process.rs  the process that talks to servers
//! link.rs     the worker's side: an address as a disk
//! start.rs    how the caller starts it
//! child.rs    how a process starts it that runs Linux itself, as the command does
//! ```

mod child;
mod frame;
mod link;
mod named;
mod process;
mod start;

pub use child::fork;
pub use link::Link;
pub use named::Named;
pub(crate) use process::run;
pub(crate) use start::Servers;
use std::time::Duration;

/// What the program of workers is told to be this one, as its first argument.
pub(crate) const ARGUMENT: &str = "servers";

/// What it may take to tell servers that it is the end.
const FAREWELLS: Duration = Duration::from_secs(2);

//! Runs ordinary Linux programs on the kernel in this process.
//!
//! ```no_run
//! use tane_run::{Command, Streams};
//!
//! let kernel = tane::Kernel::builder().programs(true).boot()?;
//! let child = Command::new("/bin/busybox").arg("ls").start(&kernel, Streams::host())?;
//! std::process::exit(child.wait()?.code());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! command.rs   what to run, and starting it
//! prepared.rs  what a new process does before the program is in its place
//! network.rs   the loopback interface, which is up for it
//! file.rs      a file that it sees in the place of its root's
//! child.rs     a program that runs, and how it ended
//! started.rs   those that nobody has waited for yet
//! streams.rs   its input and output, pumped from and to the host's
//! terminal.rs  a terminal in the place of these
//! pipe.rs      a pipe inside the kernel
//! path.rs      where a program is found
//! refusal.rs   why one cannot be executed, in words
//! intercept/   its system calls become jumps to the kernel's gate
//! ```
//!
//! Programs fork, execute others and have threads. All are in this process, at addresses of
//! their own; those that have some in common take turns. See docs/run.md.
//!
//! Imports of ours: `tane`, `tane-rewrite`.

mod child;
mod command;
mod file;
mod intercept;
mod network;
mod path;
mod pipe;
mod prepared;
mod refusal;
mod started;
mod streams;
mod terminal;

pub use child::{end_all, Child, Ending, Handle};
pub use command::{Command, Error};
#[doc(hidden)]
pub use intercept::Intercept;
pub use path::DEFAULT as DEFAULT_PATH;
pub use streams::Streams;
pub use terminal::{Size, Terminal};

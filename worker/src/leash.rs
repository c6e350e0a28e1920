//! What ends a worker with its caller, whatever runs in it.
//!
//! A worker ends when its lifeline closes; code that has taken it over need not look.
//! So its caller keeps two sockets, connected to each other, and has the host's kernel
//! send a signal when one finds the other closed (`O_ASYNC`, `F_SETOWN` and `F_SETSIG`
//! of fcntl(2)): SIGKILL, to the worker. However the caller ends, its descriptors are
//! closed one after the other.
//!
//! The worker never has either socket, so that no system call of its jail reaches them;
//! nothing holds off SIGKILL; and it is the process that is meant, not whoever gets its
//! number later. `PR_SET_PDEATHSIG` would not do: it tells of the end of the thread that
//! started the worker, and those of programs come and go.

use crate::failure::{Failure, Result};
use crate::fork;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Child;

// asm-generic/fcntl.h; not in the C library's headers for Rust.
const F_SETSIG: i32 = 10;

/// Held by the caller; the worker ends with it.
pub struct Leash([UnixStream; 2]);

fn set(end: &UnixStream, command: i32, value: i32) -> io::Result<()> {
    // SAFETY: a descriptor of ours, and a command that takes a number.
    match unsafe { libc::fcntl(end.as_raw_fd(), command, value) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

impl Leash {
    /// For a child that was just started; it is ended if that fails.
    pub fn of(child: &mut Child) -> Result<Leash> {
        Leash::tie(child).map_err(|e| {
            if matches!(child.try_wait(), Ok(None)) {
                let _ = child.kill();
                let _ = child.wait();
            }
            Failure::of_io(&e, "tie the worker to this process")
        })
    }

    fn tie(child: &mut Child) -> io::Result<Leash> {
        let (one, other) = UnixStream::pair()?;
        let ends = [one, other];
        for end in &ends {
            set(end, libc::F_SETOWN, child.id() as i32)?;
        }
        // A program that waits for any child may have waited for this one, and another
        // process have its number: then this is an error.
        child.try_wait()?;
        for end in &ends {
            set(end, F_SETSIG, libc::SIGKILL)?;
            set(end, libc::F_SETFL, libc::O_ASYNC)?;
            fork::remember(end);
        }
        Ok(Leash(ends))
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        for end in &self.0 {
            fork::forget(end.as_raw_fd());
        }
    }
}

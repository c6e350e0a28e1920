//! The process that talks to servers as a child of one that will run Linux itself.

use super::link::Link;
use super::named::Named;
use super::process;
use crate::take_over::keep_only;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use tane::images::Login;
use tane::jail::{fork_tied, leash};

/// Start it for these addresses, which have no names and passwords in them; those are
/// `logins`. It ends with this process. Before a kernel runs here, and before a jail that
/// lets nobody start processes.
pub fn fork(addresses: Vec<Named>, logins: Vec<Login>) -> io::Result<Link> {
    let (near, far) = UnixStream::pair()?;
    // SAFETY: no kernel runs yet, and no thread that holds anything.
    match unsafe { fork_tied() }? {
        None => {
            // SAFETY: this process does nothing else; what it has open is its parent's.
            let line = unsafe {
                let line = libc::fcntl(far.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3);
                let kept = [Some(line), leash()].into_iter().flatten();
                if line < 0 || keep_only(&kept.collect::<Vec<_>>()).is_err() {
                    libc::_exit(1);
                }
                OwnedFd::from_raw_fd(line)
            };
            process::serve(line, addresses, logins)
        }
        Some(tied) => {
            tied.for_good();
            Ok(Link::new(near.into()))
        }
    }
}

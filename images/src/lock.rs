//! The advisory lock on an image while it is in use.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// An open image with flock(2) taken: shared for readers, exclusive for a writer.
/// The lock belongs to the open file, not to the process: two disks of one process
/// are as separate as two programs.
///
/// It is given back by name, not by closing the last descriptor: a child that
/// another thread is just starting has a copy of every descriptor until it
/// executes its program.
#[derive(Debug)]
pub(crate) struct Lock(File);

impl Lock {
    /// Take the lock, or say who is in the way and what to do.
    pub fn take(file: &File, path: &Path, exclusive: bool) -> io::Result<Self> {
        let kind = if exclusive {
            libc::LOCK_EX
        } else {
            libc::LOCK_SH
        };
        let own = file.try_clone()?;
        // SAFETY: no memory involved.
        if unsafe { libc::flock(own.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
            return Ok(Self(own));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // File systems without locks (some network ones) are used unlocked.
            Some(libc::ENOLCK | libc::EOPNOTSUPP) => Ok(Self(own)),
            Some(libc::EWOULDBLOCK) => {
                let what = if exclusive {
                    "is in use by another program or disk; wait until it ends, or open it read-only"
                } else {
                    "is being written by another program or disk; wait until it ends"
                };
                Err(io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    format!("{}: {what}", path.display()),
                ))
            }
            _ => Err(io::Error::new(
                error.kind(),
                format!("{}: cannot be locked: {error}", path.display()),
            )),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: no memory involved.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

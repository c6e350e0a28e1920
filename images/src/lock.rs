//! The advisory lock on an image while it is in use.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

/// flock(2): shared for readers, exclusive for a writer, released with the last
/// descriptor. It belongs to the open file, not to the process: two disks of one
/// process are as separate as two programs.
pub(crate) fn lock(file: &File, path: &Path, exclusive: bool) -> io::Result<()> {
    let kind = if exclusive {
        libc::LOCK_EX
    } else {
        libc::LOCK_SH
    };
    // SAFETY: no memory involved.
    if unsafe { libc::flock(file.as_raw_fd(), kind | libc::LOCK_NB) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // File systems without locks (some network ones) are used unlocked.
        Some(libc::ENOLCK | libc::EOPNOTSUPP) => Ok(()),
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

//! Who reads a directory of the host for a comparison with an image: a process without Linux,
//! which tells all that is in it, and hears nothing.

use super::gofer::keep_only;
use super::jail;
use crate::args::Global;
use crate::compare::told::{tell, Told, Wanted};
use crate::failure::{Failure, Result};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use tane::jail::Jail;
use tane_linux::{Host, Sys};

/// Start it, for this directory. Before the jail is entered.
pub fn start(path: &Path, wanted: &Wanted, global: &Global) -> Result<Told> {
    let fail = |e: io::Error| Failure::image(format!("the process that reads on the host: {e}"));
    let (near, far) = UnixStream::pair().map_err(fail)?;
    // SAFETY: no kernel runs yet. The only other thread waits for signals, and holds
    // nothing that the child could wait for.
    match unsafe { libc::fork() } {
        -1 => Err(fail(io::Error::last_os_error())),
        0 => {
            let line = File::from(OwnedFd::from(far));
            let work = || confine(&line, path, global).and_then(|()| tell(&line, path, wanted));
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(Told::new(OwnedFd::from(near).into())),
    }
}

fn confine(line: &File, path: &Path, global: &Global) -> io::Result<()> {
    // SAFETY: no memory involved. It ends with who listens, and has no terminal.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::setsid();
    }
    keep_only(vec![line.as_raw_fd()])?;
    Sys(&Host).raise_open_files();
    let mut own = Jail::new();
    // Something can be opened: a directory that is not there is told as that.
    own.read("/dev/null").attributes(true).hands(true);
    if path.exists() {
        own.read(path);
    }
    jail::limit_memory(&mut own, global);
    own.enter().map(drop).map_err(io::Error::other)
}

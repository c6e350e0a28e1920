//! A directory for temporary files of this process, which goes when the process does,
//! however it ends.

use crate::failure::{Failure, Result, SOME_FAILED};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::FromRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// It is there, and will be removed.
static MADE: OnceLock<PathBuf> = OnceLock::new();

/// Where temporary files without a name may be: in that directory if it is there, as it
/// is in a jail, else beside it.
pub fn place() -> PathBuf {
    let beside = || std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
    MADE.get().cloned().unwrap_or_else(|| beside().into())
}

/// In TMPDIR, else in /var/tmp. The first time before a kernel runs.
pub fn directory() -> Result<PathBuf> {
    if let Some(made) = MADE.get() {
        return Ok(made.clone());
    }
    let dir = std::env::var_os("TMPDIR").unwrap_or_else(|| "/var/tmp".into());
    let path = Path::new(&dir).join(format!("tane-{}.tmp", std::process::id()));
    let fail = |e: io::Error| Failure::new(SOME_FAILED, format!("{}: {e}", path.display()));
    let path = std::path::absolute(&path).map_err(fail)?;
    DirBuilder::new().mode(0o700).create(&path).map_err(fail)?;
    let swept = path.clone();
    let sweep = move || drop(fs::remove_dir_all(swept));
    at_the_end(sweep).map_err(|e| {
        let _ = fs::remove_dir(&path);
        fail(e)
    })?;
    Ok(MADE.get_or_init(|| path).clone())
}

/// Done by a child, which waits for the end of this process. Neither a jail nor SIGKILL
/// keeps it from that. Before a kernel runs.
pub fn at_the_end(sweep: impl FnOnce()) -> io::Result<()> {
    let mut ends = [-1; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no kernel runs yet, and no thread that holds anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: descriptors of this process; a session of its own keeps the
            // terminal's signals away.
            let mut reader = unsafe {
                libc::close(ends[1]);
                libc::setsid();
                for standard in 0..3 {
                    libc::close(standard);
                }
                File::from_raw_fd(ends[0])
            };
            let _ = reader.read(&mut [0]);
            sweep();
            // SAFETY: ends the process.
            unsafe { libc::_exit(0) }
        }
        _ => {
            // SAFETY: its end. The other one stays open as long as this process.
            unsafe { libc::close(ends[0]) };
            Ok(())
        }
    }
}

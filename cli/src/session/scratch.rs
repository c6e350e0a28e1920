//! A directory for temporary files of this process, which goes when the process does,
//! however it ends.

use super::child::{self, keep_only, End};
use crate::failure::{Failure, Result, SOME_FAILED};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
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
    at_the_end(Vec::new(), sweep).map_err(|e| {
        let _ = fs::remove_dir(&path);
        fail(e)
    })?;
    Ok(MADE.get_or_init(|| path).clone())
}

/// Done by a child, which waits for the end of this process, and has these descriptors of
/// its. Neither a jail nor SIGKILL keeps it from that. Before a kernel runs. A child that
/// cannot wait, as it cannot let go of the others, does nothing: it is all still in use.
pub fn at_the_end(needs: Vec<RawFd>, sweep: impl FnOnce()) -> io::Result<()> {
    let (reader, writer) = io::pipe()?;
    child::start(End::Unheard, || {
        // SAFETY: no memory involved. A session of its own keeps the terminal's signals away.
        unsafe { libc::setsid() };
        keep_only([needs, vec![reader.as_raw_fd()]].concat())?;
        // Nobody writes anything.
        io::copy(&mut &reader, &mut io::sink())?;
        sweep();
        Ok(())
    })?;
    // It stays open as long as this process.
    std::mem::forget(writer);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tane_test_support::Scratch;

    /// In a child that can open no more than the pipe.
    #[test]
    fn nothing_is_swept_by_who_cannot_wait_for_the_end() {
        let s = Scratch::new("sweeper");
        let kept = s.join("kept");
        fs::write(&kept, "in use").expect("a file");
        let work = || {
            let (_, last) = io::pipe().expect("a pipe");
            let most = last.as_raw_fd() as u64 + 1;
            drop(last);
            let limit = libc::rlimit {
                rlim_cur: most,
                rlim_max: most,
            };
            // SAFETY: a structure of ours, and a child of this process.
            unsafe {
                assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
                at_the_end(Vec::new(), || drop(fs::remove_file(&kept))).expect("a child");
                assert!(libc::waitpid(-1, std::ptr::null_mut(), 0) > 0);
            }
            7
        };
        let child = match child::tied().expect("a child") {
            None => child::run_coded(work, 1),
            Some(child) => child,
        };
        let mut status = 0;
        // SAFETY: a child of ours; a live int.
        unsafe { libc::waitpid(child.pid(), &raw mut status, 0) };
        assert_eq!(libc::WEXITSTATUS(status), 7);
        assert!(kept.exists());
    }
}

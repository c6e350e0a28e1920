//! A child that ends with who started it, however that one ends.
//!
//! `PR_SET_PDEATHSIG` alone does not serve: that signal counts as one of the dying process's
//! own, and Landlock keeps a process in a jail from signalling who is not in the same (Linux
//! 6.12); and it tells of the end of the thread that started the child, and those of programs
//! come and go. So the host's kernel is asked for SIGKILL when the other end of a pipe is
//! closed (`O_ASYNC`, `F_SETOWN` and `F_SETSIG` of fcntl(2)). Nothing holds that off, and it
//! is the process that is meant, not whoever gets its number later.
//!
//! A [`Leash`] is a pipe of which the parent has both ends, which the child cannot reach, by
//! no system call of any jail: however the parent ends, one is closed before the other. A
//! child of [`fork_tied`] has an end of a second one, which its parent can do nothing about,
//! whatever has taken it over.

use crate::hidden::Hidden;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

// asm-generic/fcntl.h; not in the C library's headers for Rust.
const F_SETSIG: i32 = 10;

/// This process's own end; -1: it ends by itself.
static TIED: AtomicI32 = AtomicI32::new(-1);

/// Ends a child, whatever runs in it, with the process that has this, or when it is dropped.
pub struct Leash {
    _ends: [Hidden; 2],
}

impl Leash {
    /// For a child of this process that nobody has waited for.
    ///
    /// Errors: those of pipe(2) and of [`Hidden::new`]; ESRCH or ECHILD if it is there no more.
    pub fn of(child: i32) -> io::Result<Leash> {
        let (reader, writer) = io::pipe()?;
        let ends = [OwnedFd::from(reader), OwnedFd::from(writer)];
        for end in &ends {
            set(end, libc::F_SETOWN, child)?;
        }
        // A program that waits for any child may have waited for this one, and another
        // process have its number: then this is an error.
        is_child(child)?;
        for end in &ends {
            kills(end)?;
        }
        let [reader, writer] = ends;
        Ok(Leash {
            _ends: [Hidden::new(reader)?, Hidden::new(writer)?],
        })
    }
}

/// A child of [`fork_tied`]. Dropped, it is killed.
pub struct Tied {
    pid: i32,
    _leash: Leash,
    /// The other end of its own.
    _line: Hidden,
}

impl Tied {
    /// Its number.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// It ends with this process, and not before; its number.
    pub fn for_good(self) -> i32 {
        std::mem::ManuallyDrop::new(self).pid
    }
}

/// fork(2): None in the child, which ends with this process. It has to close all descriptors
/// that it has no use for, but for its [`leash`].
///
/// # Safety
/// As fork(2): what other threads hold, nobody gives back in the child.
pub unsafe fn fork_tied() -> io::Result<Option<Tied>> {
    let (own, line) = io::pipe()?;
    // The child has no copy of it.
    let line = Hidden::new(line.into())?;
    // SAFETY: the caller's to see to.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            if tie(own.into()).is_err() {
                // SAFETY: ends the process.
                unsafe { libc::_exit(1) }
            }
            Ok(None)
        }
        pid => Ok(Some(Tied {
            pid,
            _leash: Leash::of(pid)?,
            _line: line,
        })),
    }
}

/// What a child of [`fork_tied`] has to keep open.
pub fn leash() -> Option<RawFd> {
    Some(TIED.load(Relaxed)).filter(|fd| *fd >= 0)
}

/// In the child.
fn tie(end: OwnedFd) -> io::Result<()> {
    // SAFETY: no memory involved.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // SAFETY: no memory involved.
    set(&end, libc::F_SETOWN, unsafe { libc::getpid() })?;
    kills(&end)?;
    let mut now = libc::pollfd {
        fd: end.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: a structure of ours.
    if unsafe { libc::poll(&raw mut now, 1, 0) } != 0 {
        // Nobody is there any more.
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    TIED.store(end.into_raw_fd(), Relaxed);
    Ok(())
}

/// The process that was said is killed when the other end of this one is closed.
fn kills(end: &OwnedFd) -> io::Result<()> {
    set(end, F_SETSIG, libc::SIGKILL)?;
    set(end, libc::F_SETFL, libc::O_ASYNC)
}

fn set(end: &OwnedFd, command: i32, value: i32) -> io::Result<()> {
    // SAFETY: a descriptor of ours, and a command that takes a number.
    match unsafe { libc::fcntl(end.as_raw_fd(), command, value) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn is_child(pid: i32) -> io::Result<()> {
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: a structure of zeroes, which the host fills.
    unsafe {
        let mut found: libc::siginfo_t = std::mem::zeroed();
        match libc::waitid(libc::P_PID, pid as u32, &raw mut found, how) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

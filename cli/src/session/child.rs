//! Children of this process that are there for one thing, and never go on as it. Each is
//! started before a kernel runs here and before a jail is entered.

use std::io;
use std::os::fd::RawFd;
use tane::jail::{fork_tied, leash, Tied};

/// How a child ends when this process does.
pub enum End {
    /// It is killed, whatever it is doing.
    Killed,
    /// By itself, as nobody asks any more: what it has to remove goes before.
    Unheard,
}

/// Which of two processes this is.
pub enum Forked {
    /// The child, for which [`run`] is.
    Child,
    /// Who started it.
    Starter,
}

pub fn fork(end: End) -> io::Result<Forked> {
    let pid = match end {
        // SAFETY: no kernel runs yet. The only other thread waits for signals, and holds
        // nothing that the child could wait for.
        End::Killed => match unsafe { fork_tied() }? {
            None => 0,
            Some(tied) => tied.for_good(),
        },
        // SAFETY: the same.
        End::Unheard => unsafe { libc::fork() },
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        _ => Ok(Forked::Starter),
    }
}

/// In the child: whatever happens, it does not go on as its parent. What it has open is the
/// host's to close.
pub fn run(work: impl FnOnce() -> io::Result<()>) -> ! {
    let work = || {
        let _ = work();
        0
    };
    run_coded(work, 0)
}

/// The same of one that ends with the code of its work, or with this one.
pub fn run_coded(work: impl FnOnce() -> u8, if_it_panics: u8) -> ! {
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    // SAFETY: ends the process.
    unsafe { libc::_exit(code.unwrap_or(if_it_panics).into()) }
}

/// A child that does this.
pub fn start(end: End, work: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    match fork(end)? {
        Forked::Child => run(work),
        Forked::Starter => Ok(()),
    }
}

/// A child that does this. It is killed with this process, and when it is dropped here.
pub fn start_tied(work: impl FnOnce() -> io::Result<()>) -> io::Result<Tied> {
    match tied()? {
        None => run(work),
        Some(tied) => Ok(tied),
    }
}

/// None in a child, for which [`run`] is. It is killed with this process, and when it is
/// dropped here.
pub fn tied() -> io::Result<Option<Tied>> {
    // SAFETY: as in `fork`.
    unsafe { fork_tied() }
}

/// Closes all descriptors but these, and what this process ends by; the standard ones lead
/// nowhere.
pub fn keep_only(mut kept: Vec<RawFd>) -> io::Result<()> {
    kept.extend(leash());
    kept.sort_unstable();
    // SAFETY: descriptors of this process, which uses no others.
    unsafe {
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if null < 0 {
            return Err(io::Error::last_os_error());
        }
        for standard in (0..3).filter(|fd| !kept.contains(fd)) {
            libc::dup2(null, standard);
        }
        let mut next = 3;
        for fd in kept.into_iter().filter(|fd| *fd >= 3) {
            close(next, fd - 1);
            next = fd + 1;
        }
        close(next, RawFd::MAX);
    }
    Ok(())
}

fn close(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: none of these is used by anybody.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            // Linux before 5.9.
            let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(0, 1 << 20) as RawFd;
            for fd in first..=last.min(most) {
                libc::close(fd);
            }
        }
    }
}

//! What a process of this program finds when it starts, and makes of it.

use std::os::fd::{FromRawFd, OwnedFd};

/// What the caller gave, out of the way of those who write to standard output.
/// Everything else that it had open is closed.
pub struct Given {
    pub first: OwnedFd,
    pub second: OwnedFd,
    /// If it is a socket.
    pub third: Option<OwnedFd>,
}

pub fn is_socket(fd: i32) -> bool {
    // SAFETY: a structure of ours.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut stat) == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK
    }
}

fn check(result: i64) -> std::io::Result<i32> {
    match result {
        0.. => Ok(result as i32),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Close all descriptors but these, which are none of the standard ones, and ignore the
/// signals of terminals.
///
/// # Safety
/// Nothing in this process uses the others.
pub unsafe fn keep_only(kept: &[i32]) -> std::io::Result<()> {
    let rest = kept.iter().max().unwrap_or(&2) + 1;
    check(libc::syscall(libc::SYS_close_range, rest, u32::MAX, 0))?;
    for fd in 3..rest {
        if !kept.contains(&fd) {
            libc::close(fd);
        }
    }
    let null = check(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC).into())?;
    for fd in 0..3 {
        check(libc::dup2(null, fd).into())?;
    }
    if null > 2 {
        libc::close(null);
    }
    // The caller decides when this ends, and files may be too large.
    for signal in [
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGXFSZ,
    ] {
        libc::signal(signal, libc::SIG_IGN);
    }
    Ok(())
}

/// Take the descriptors, and ignore the signals of terminals.
pub fn take_over() -> std::io::Result<Given> {
    // SAFETY: descriptors of this process, which has done nothing yet.
    unsafe {
        // Above what careless callers leave open, which goes.
        let take = |fd| check(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3).into());
        let (first, second) = (take(0)?, take(1)?);
        let third = is_socket(2).then(|| take(2)).transpose()?;
        let kept = [Some(first), Some(second), third];
        keep_only(&kept.into_iter().flatten().collect::<Vec<_>>())?;
        Ok(Given {
            first: OwnedFd::from_raw_fd(first),
            second: OwnedFd::from_raw_fd(second),
            third: third.map(|fd| OwnedFd::from_raw_fd(fd)),
        })
    }
}

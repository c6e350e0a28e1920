//! A descriptor of the host's that is ready when it is told to be: one end of a pair of Unix
//! sockets. It is readable while a byte is in it, and writable unless its buffer is full: of
//! all that epoll(7) can wait for, only sockets and terminals have both, each by itself.

use super::Ready;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
/// What fills the smallest buffer that there is with one call.
const PIECE: usize = 8 << 10;

pub struct Signal {
    /// What programs wait for.
    shown: OwnedFd,
    /// By which it is told.
    other: OwnedFd,
}

fn send(fd: &OwnedFd, bytes: &[u8]) -> isize {
    // SAFETY: reads these bytes.
    unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), FLAGS) }
}

/// Until nothing is left.
fn drain(fd: &OwnedFd) {
    let mut bytes = [0u8; PIECE];
    // SAFETY: writes into these bytes.
    while unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), PIECE, FLAGS) } > 0 {}
}

impl Signal {
    /// Ready for nothing.
    pub fn new() -> io::Result<Self> {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let mut fds = [0; 2];
        // SAFETY: writes two numbers.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: they are nobody else's.
        let [shown, other] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let (least, size) = (1i32, size_of::<i32>() as u32);
        let at = (&raw const least).cast();
        let (level, option) = (libc::SOL_SOCKET, libc::SO_SNDBUF);
        // SAFETY: reads a number. The host has a least size, and takes that.
        unsafe { libc::setsockopt(shown.as_raw_fd(), level, option, at, size) };
        let signal = Self { shown, other };
        signal.set(Ready::WRITE, false);
        Ok(signal)
    }

    /// Be ready for this, or no longer. Who was not, and is told so, may be told again.
    pub fn set(&self, ready: Ready, yes: bool) {
        if ready.has(Ready::READ) {
            match yes {
                true => drop(send(&self.other, &[1])),
                false => drain(&self.shown),
            }
        }
        if ready.has(Ready::WRITE) {
            match yes {
                true => drain(&self.other),
                false => while send(&self.shown, &[0; PIECE]) > 0 {},
            }
        }
    }
}

impl AsFd for Signal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shown.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(signal: &Signal) -> i16 {
        let events = libc::POLLIN | libc::POLLOUT;
        let mut polled = libc::pollfd {
            fd: signal.as_fd().as_raw_fd(),
            events,
            revents: 0,
        };
        // SAFETY: one structure.
        unsafe { libc::poll(&raw mut polled, 1, 0) };
        polled.revents
    }

    #[test]
    fn it_is_ready_for_what_it_was_told_and_nothing_else() {
        let signal = Signal::new().unwrap();
        assert_eq!(looks(&signal), 0);
        for _ in 0..3 {
            signal.set(Ready::READ, true);
            assert_eq!(looks(&signal), libc::POLLIN);
            signal.set(Ready::WRITE, true);
            assert_eq!(looks(&signal), libc::POLLIN | libc::POLLOUT);
            signal.set(Ready::READ, false);
            assert_eq!(looks(&signal), libc::POLLOUT);
            signal.set(Ready::WRITE, false);
            assert_eq!(looks(&signal), 0);
        }
    }
}

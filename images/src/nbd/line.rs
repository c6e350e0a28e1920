//! A connection to a server.
//!
//! It is made by calls of sockets, and then used by read(2) and write(2) alone, which a
//! process may still do when it has no network any more.

use super::address::Address;
use crate::buffers::{slice_into, total, Buffers};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The host takes at most this many buffers in one call.
const IOV_MAX: usize = 1024;
/// Asked between two calls of the host, with the bytes that are done: an error ends it.
pub(super) type GoOn<'a> = dyn FnMut(usize) -> io::Result<()> + 'a;

/// A connection.
pub(super) struct Line {
    socket: File,
    /// How long the other end may take for what it is waited for.
    pub patience: Duration,
    /// This process is in a jail that knows no sockets.
    only_files: AtomicBool,
}

impl Line {
    /// Connect, by any of the addresses that the host's name has.
    pub fn connect(address: &Address, patience: Duration) -> io::Result<Line> {
        Ok(Line::of(address.server.connect(patience)?, patience))
    }

    /// A socket that is connected, whose calls end after a tick.
    pub fn of(socket: OwnedFd, patience: Duration) -> Line {
        Line {
            socket: File::from(socket),
            patience,
            only_files: AtomicBool::new(false),
        }
    }

    /// Fill the buffers.
    pub fn read(&self, to: Buffers, go_on: &mut GoOn) -> io::Result<()> {
        self.all(to, go_on, |part| self.read_once(part))
    }

    /// Send all of the buffers.
    pub fn write(&self, from: Buffers, go_on: &mut GoOn) -> io::Result<()> {
        self.all(from, go_on, |part| self.write_once(part, Waits::ForRoom))
    }

    /// Send what there is room for at once.
    pub fn offer(&self, from: Buffers) {
        self.write_once(from, Waits::Never);
    }

    fn all(
        &self,
        buffers: Buffers,
        go_on: &mut GoOn,
        once: impl Fn(Buffers) -> isize,
    ) -> io::Result<()> {
        let (wanted, mut done) = (total(buffers), 0);
        let mut rest = Vec::new();
        while done < wanted {
            let now = if done > 0 { &rest[..] } else { buffers };
            let n = once(&now[..now.len().min(IOV_MAX)]);
            if n == 0 {
                let text = "the server has ended the connection";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            if n > 0 {
                done += n as usize;
                if done == wanted {
                    break;
                }
                slice_into(buffers, done, wanted - done, &mut rest);
            } else {
                let error = io::Error::last_os_error();
                let why = match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => None,
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                        Some("the server has broken the connection off")
                    }
                    // Of keepalive, or what was sent and never acknowledged.
                    io::ErrorKind::TimedOut => {
                        Some("the connection is lost: the server's host does not answer any more")
                    }
                    _ => return Err(error),
                };
                if let Some(text) = why {
                    return Err(io::Error::new(error.kind(), text));
                }
            }
            go_on(done)?;
        }
        Ok(())
    }

    fn read_once(&self, to: Buffers) -> isize {
        // SAFETY: guest memory or ours, see `Buffers`.
        unsafe { libc::readv(self.socket.as_raw_fd(), to.as_ptr(), to.len() as i32) }
    }

    /// Without a signal if the other end is gone.
    fn write_once(&self, from: Buffers, waits: Waits) -> isize {
        let fd = self.socket.as_raw_fd();
        if !self.only_files.load(Relaxed) {
            // SAFETY: as above; nothing else in the message.
            let n = unsafe {
                let mut message: libc::msghdr = std::mem::zeroed();
                message.msg_iov = from.as_ptr().cast_mut();
                message.msg_iovlen = from.len() as _;
                let flags = match waits {
                    Waits::ForRoom => libc::MSG_NOSIGNAL,
                    Waits::Never => libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
                };
                libc::sendmsg(fd, &raw const message, flags)
            };
            let refused = [Some(libc::ENOSYS), Some(libc::EPERM)];
            if n >= 0 || !refused.contains(&io::Error::last_os_error().raw_os_error()) {
                return n;
            }
            self.only_files.store(true, Relaxed);
        }
        let (parts, count) = (from.as_ptr(), from.len() as i32);
        // SAFETY: as above.
        unsafe {
            match waits {
                Waits::ForRoom => libc::writev(fd, parts, count),
                Waits::Never => libc::pwritev2(fd, parts, count, -1, libc::RWF_NOWAIT),
            }
        }
    }
}

/// What a call that sends waits for.
#[derive(Clone, Copy)]
enum Waits {
    /// For a tick at most.
    ForRoom,
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{buffer, buffer_mut};
    use std::os::unix::net::UnixStream;

    /// The socket is of one whose calls wait without an end.
    #[test]
    fn an_offer_waits_for_no_room_with_sockets_and_with_files_alone() {
        for only_files in [false, true] {
            let (near, far) = UnixStream::pair().expect("sockets");
            let line = Line::of(near.into(), Duration::from_secs(1));
            line.only_files.store(only_files, Relaxed);
            line.offer(&[buffer(b"taken")]);
            let mut taken = [0; 5];
            let other = Line::of(far.into(), Duration::from_secs(1));
            let read = other.read(&[buffer_mut(&mut taken)], &mut |_| Ok(()));
            read.expect("it is there");
            assert_eq!(&taken, b"taken");
            // As much as there is room for, and more.
            for _ in 0..1000 {
                line.offer(&[buffer(&[0; 4096])]);
            }
        }
    }
}

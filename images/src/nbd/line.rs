//! A connection to a server.
//!
//! It is made by calls of sockets, and then used by read(2) and write(2) alone, which a
//! process may still do when it has no network any more.

use super::address::{Address, Server};
use super::limit::{expired, Limit};
use crate::buffers::{slice_into, total, Buffers};
use std::fs::File;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// How long a call waits before it is asked whether to go on.
const TICK: Duration = Duration::from_secs(1);
/// The host takes at most this many buffers in one call.
const IOV_MAX: usize = 1024;
/// Seconds after which a silent peer is asked whether it is there, and between questions; and
/// how many are left unanswered. A disk may have nothing to say for hours, after which a peer
/// is gone or the routers between have forgotten it.
const KEEPALIVE: [(libc::c_int, libc::c_int); 3] = [
    (libc::TCP_KEEPIDLE, 60),
    (libc::TCP_KEEPINTVL, 15),
    (libc::TCP_KEEPCNT, 4),
];

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
        let socket = match &address.server {
            Server::Tcp(host, port) => tcp(host, *port, patience)?,
            Server::Unix(path) => unix(path, patience)
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?,
        };
        Ok(Line::of(socket, patience))
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

/// One option of a socket's.
fn set<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: as many bytes as said, of an option's value.
    let done = unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(socket.as_raw_fd(), level, name, value, len)
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn tcp(host: &str, port: u16, patience: Duration) -> io::Result<OwnedFd> {
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|e| io::Error::new(e.kind(), format!("no host {host}: {e}")))?;
    let mut last = None;
    for address in found {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(patience.min(TICK)))?;
                stream.set_write_timeout(Some(patience.min(TICK)))?;
                let socket = OwnedFd::from(stream);
                set(&socket, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1i32)?;
                for (name, value) in KEEPALIVE {
                    set(&socket, libc::IPPROTO_TCP, name, &value)?;
                }
                return Ok(socket);
            }
            Err(e) => last = Some(io::Error::new(e.kind(), format!("{address}: {e}"))),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other(format!("no host {host}"))))
}

/// Who listens and takes no connection lets others wait for ever: the standard library's call
/// knows no end of that.
fn unix(path: &Path, patience: Duration) -> io::Result<OwnedFd> {
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: zeroes are one of its values.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // With the NUL behind it, and none within.
    if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
        let text = "is no path of a socket, or too long for one";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    // SAFETY: no memory involved.
    let fd = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    let stream = UnixStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
    stream.set_read_timeout(Some(patience.min(TICK)))?;
    // It holds for connect(2), too.
    stream.set_write_timeout(Some(patience.min(TICK)))?;
    let limit = Limit::new(patience);
    loop {
        let len = size_of::<libc::sockaddr_un>() as libc::socklen_t;
        // SAFETY: a whole address.
        if unsafe { libc::connect(fd, std::ptr::from_ref(&address).cast(), len) } == 0 {
            return Ok(stream.into());
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => {
                limit.check(|after| expired("the server has taken no connection", after))?;
            }
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{buffer, buffer_mut};

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

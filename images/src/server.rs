//! Servers that are not of the web: where one listens, and a connection to it.

use crate::escapes::decoded;
use crate::limit::{expired, Limit};
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a call waits before it is asked whether to go on.
const TICK: Duration = Duration::from_secs(1);
/// Seconds after which a silent peer is asked whether it is there, and between questions; and
/// how many are left unanswered. A disk may have nothing to say for hours, after which a peer
/// is gone or the routers between have forgotten it.
const KEEPALIVE: [(libc::c_int, libc::c_int); 3] = [
    (libc::TCP_KEEPIDLE, 60),
    (libc::TCP_KEEPINTVL, 15),
    (libc::TCP_KEEPCNT, 4),
];

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// An address of IPv6 without its brackets.
    Tcp(String, u16),
    Unix(PathBuf),
}

impl Server {
    /// Connect, by any of the addresses that the host's name has. `patience`: how long that may
    /// take. Calls of the socket end after a second, for who asks then whether to go on.
    pub fn connect(&self, patience: Duration) -> io::Result<OwnedFd> {
        match self {
            Server::Tcp(host, port) => tcp(host, *port, patience),
            Server::Unix(path) => unix(path, patience)
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        }
    }
}

/// What stands between a scheme and the path; `port`: if it says none.
pub(crate) fn host_and_port(authority: &str, port: u16) -> Option<(String, u16)> {
    let (host, given) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            let given = match behind {
                "" => "",
                _ => behind.strip_prefix(':')?,
            };
            (host, given)
        }
        None => authority.split_once(':').unwrap_or((authority, "")),
    };
    let port = match given {
        "" => port,
        given => given.parse().ok().filter(|port| *port != 0)?,
    };
    let host = String::from_utf8(decoded(host)).ok()?;
    (!host.is_empty()).then_some((host, port))
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

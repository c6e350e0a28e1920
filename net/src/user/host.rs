//! Sockets of the host's.

use std::io;
use std::mem::size_of_val;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const CLIENT: i32 = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

fn family(address: IpAddr) -> i32 {
    match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    }
}

pub fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: three numbers; the descriptor is ours.
    unsafe {
        match libc::socket(family, kind | CLIENT, protocol) {
            fd @ 0.. => Ok(OwnedFd::from_raw_fd(fd)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

pub fn set<T>(socket: &OwnedFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let at = std::ptr::from_ref(value).cast();
    let length = size_of_val(value) as u32;
    // SAFETY: reads a value of this length.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, at, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `EINPROGRESS` is no error.
fn connect(socket: &OwnedFd, to: SocketAddr) -> io::Result<()> {
    let (fd, result);
    fd = socket.as_raw_fd();
    match to {
        SocketAddr::V4(to) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: to.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(to.ip().octets()),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: reads an address of this length.
            result = unsafe { libc::connect(fd, (&raw const address).cast(), 16) };
        }
        SocketAddr::V6(to) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as u16,
                sin6_port: to.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: to.ip().octets(),
                },
                sin6_scope_id: to.scope_id(),
            };
            // SAFETY: the same.
            result = unsafe { libc::connect(fd, (&raw const address).cast(), 28) };
        }
    }
    match result {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
            error => Err(error),
        },
    }
}

/// A connection that begins.
pub fn tcp(to: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(family(to.ip()), libc::SOCK_STREAM, 0)?;
    // The other end of the flow has collected what is to be collected.
    set(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1i32)?;
    connect(&socket, to)?;
    Ok(socket)
}

/// A socket for datagrams to and from there alone.
pub fn udp(to: SocketAddr) -> io::Result<OwnedFd> {
    let socket = socket(family(to.ip()), libc::SOCK_DGRAM, 0)?;
    connect(&socket, to)?;
    Ok(socket)
}

/// A socket for echo requests to there alone. EACCES: the host allows it to other groups
/// than this process's (net.ipv4.ping_group_range).
pub fn echo(to: IpAddr) -> io::Result<OwnedFd> {
    let protocol = match to {
        IpAddr::V4(_) => libc::IPPROTO_ICMP,
        IpAddr::V6(_) => libc::IPPROTO_ICMPV6,
    };
    let socket = socket(family(to), libc::SOCK_DGRAM, protocol)?;
    connect(&socket, SocketAddr::new(to, 0))?;
    Ok(socket)
}

/// What became of a connection that began.
pub fn error(socket: &OwnedFd) -> i32 {
    let (mut errno, mut length) = (0i32, 4u32);
    let at = (&raw mut errno).cast();
    let fd = socket.as_raw_fd();
    // SAFETY: writes a number and its length.
    unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, at, &raw mut length) };
    errno
}

pub fn poll(fds: &mut [libc::pollfd], timeout: i32) -> io::Result<usize> {
    loop {
        // SAFETY: an array of ours.
        match unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as u64, timeout) } {
            n @ 0.. => return Ok(n as usize),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

pub fn polled(fd: RawFd, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

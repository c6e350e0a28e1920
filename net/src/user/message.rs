//! What the gateway, inside the kernel's process, and the broker, outside of it if it is
//! jailed, say to each other: a message each on a socket of the kind SOCK_SEQPACKET, with
//! a descriptor or none. Neither believes what it reads.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The longest message of DNS.
pub const LONGEST_NAME_MESSAGE: usize = 65_535;
/// Number, kind, and what it is about.
const HEAD: usize = 24;
/// Room for any message.
pub const ROOM: usize = HEAD + LONGEST_NAME_MESSAGE;

/// What the gateway asks for. Answers have its number.
#[derive(Debug, PartialEq, Eq)]
pub enum Request<'m> {
    /// A connection to there.
    Tcp(SocketAddr),
    /// A socket for datagrams to and from there.
    Udp(SocketAddr),
    /// A socket for echo requests to there.
    Echo(IpAddr),
    /// An answer to a query of DNS.
    Name {
        /// The query.
        query: &'m [u8],
        /// By TCP, since it did not fit into a datagram.
        long: bool,
    },
}

/// What the broker says.
#[derive(Debug)]
pub enum Answer<'m> {
    /// There it is.
    Open(OwnedFd),
    /// There is none, by this error.
    Refused(i32),
    /// This is the answer.
    Name(&'m [u8]),
    /// Somebody has connected, and wants this port inside.
    Incoming(OwnedFd, u16),
}

const TCP: u8 = 1;
const UDP: u8 = 2;
const ECHO: u8 = 3;
const NAME: u8 = 4;
const LONG_NAME: u8 = 5;

const OPEN: u8 = 1;
const REFUSED: u8 = 2;
const ANSWER: u8 = 3;
const INCOMING: u8 = 4;

fn put_address(to: &mut [u8], address: &SocketAddr) {
    to[6..8].copy_from_slice(&address.port().to_be_bytes());
    match address.ip() {
        IpAddr::V4(ip) => {
            to[5] = 4;
            to[8..12].copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            to[5] = 6;
            to[8..HEAD].copy_from_slice(&ip.octets());
        }
    }
}

fn address(head: &[u8; HEAD]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes([head[6], head[7]]);
    let ip = match head[5] {
        4 => IpAddr::V4(Ipv4Addr::new(head[8], head[9], head[10], head[11])),
        6 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(&head[8..]).ok()?)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

impl<'m> Request<'m> {
    /// As a message.
    pub fn encode(&self, number: u32) -> Vec<u8> {
        let mut message = vec![0; HEAD];
        message[..4].copy_from_slice(&number.to_ne_bytes());
        match self {
            Request::Tcp(to) | Request::Udp(to) => {
                message[4] = if matches!(self, Request::Tcp(_)) {
                    TCP
                } else {
                    UDP
                };
                put_address(&mut message, to);
            }
            Request::Echo(to) => {
                message[4] = ECHO;
                put_address(&mut message, &SocketAddr::new(*to, 0));
            }
            Request::Name { query, long } => {
                message[4] = if *long { LONG_NAME } else { NAME };
                message.extend_from_slice(query);
            }
        }
        message
    }

    /// `None`: it is none.
    pub fn decode(message: &'m [u8]) -> Option<(u32, Self)> {
        let (head, rest) = message.split_first_chunk::<HEAD>()?;
        let number = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
        let request = match (head[4], rest) {
            (TCP, []) => Request::Tcp(address(head)?),
            (UDP, []) => Request::Udp(address(head)?),
            (ECHO, []) => Request::Echo(address(head)?.ip()),
            (kind @ (NAME | LONG_NAME), query) => Request::Name {
                query,
                long: kind == LONG_NAME,
            },
            _ => return None,
        };
        Some((number, request))
    }
}

impl<'m> Answer<'m> {
    /// Say it to that request. EPIPE: nobody listens any more.
    pub fn send(&self, socket: BorrowedFd<'_>, number: u32) -> io::Result<()> {
        let mut message = vec![0; HEAD];
        message[..4].copy_from_slice(&number.to_ne_bytes());
        let fd = match self {
            Answer::Open(fd) => {
                message[4] = OPEN;
                Some(fd)
            }
            Answer::Refused(errno) => {
                message[4] = REFUSED;
                message[8..12].copy_from_slice(&errno.to_ne_bytes());
                None
            }
            Answer::Name(answer) => {
                message[4] = ANSWER;
                message.extend_from_slice(answer);
                None
            }
            Answer::Incoming(fd, port) => {
                message[4] = INCOMING;
                message[6..8].copy_from_slice(&port.to_be_bytes());
                Some(fd)
            }
        };
        send(socket, &message, fd)
    }

    /// `None`: it is none.
    pub fn decode(message: &'m [u8], fd: Option<OwnedFd>) -> Option<(u32, Self)> {
        let (head, rest) = message.split_first_chunk::<HEAD>()?;
        let number = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
        let answer = match (head[4], fd) {
            (OPEN, Some(fd)) => Answer::Open(fd),
            // This process has as many open as it may.
            (OPEN, None) => Answer::Refused(libc::EMFILE),
            (REFUSED, None) => {
                Answer::Refused(i32::from_ne_bytes([head[8], head[9], head[10], head[11]]))
            }
            (ANSWER, None) => Answer::Name(rest),
            (INCOMING, Some(fd)) => Answer::Incoming(fd, u16::from_be_bytes([head[6], head[7]])),
            _ => return None,
        };
        Some((number, answer))
    }
}

/// Room for one descriptor beside a message, aligned as `cmsghdr` must be.
#[repr(C, align(8))]
struct Control([u8; 24]);

fn head(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: zeros are a header without anything.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_iov = part;
    head.msg_iovlen = 1;
    head
}

fn send(socket: BorrowedFd<'_>, message: &[u8], fd: Option<&OwnedFd>) -> io::Result<()> {
    let mut part = libc::iovec {
        iov_base: message.as_ptr().cast_mut().cast(),
        iov_len: message.len(),
    };
    let mut head = head(&mut part);
    let mut control = Control([0; 24]);
    if let Some(fd) = fd {
        head.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: arithmetic; and the header lies in `control`, which is large enough.
        unsafe {
            head.msg_controllen = libc::CMSG_SPACE(4) as usize;
            let one = libc::CMSG_FIRSTHDR(&raw const head);
            (*one).cmsg_level = libc::SOL_SOCKET;
            (*one).cmsg_type = libc::SCM_RIGHTS;
            (*one).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(one)
                .cast::<i32>()
                .write_unaligned(fd.as_raw_fd());
        }
    }
    loop {
        // SAFETY: all that the header leads to is ours and read alone.
        match unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const head, libc::MSG_NOSIGNAL) } {
            0.. => return Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// The next message, and the descriptor that comes with it; none at the end. Waits, unless
/// the socket does not.
pub fn receive<'b>(
    socket: BorrowedFd<'_>,
    buffer: &'b mut [u8],
) -> io::Result<Option<(&'b [u8], Option<OwnedFd>)>> {
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let mut head = head(&mut part);
    let mut control = Control([0; 24]);
    head.msg_control = control.0.as_mut_ptr().cast();
    head.msg_controllen = control.0.len();
    let n = loop {
        let flags = libc::MSG_CMSG_CLOEXEC;
        // SAFETY: all that the header leads to is ours.
        match unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut head, flags) } {
            n @ 0.. => break n as usize,
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    };
    // SAFETY: the host filled what lies in `control`, which has room for one descriptor;
    // that one is nobody's yet.
    let fd = unsafe {
        let one = libc::CMSG_FIRSTHDR(&raw const head);
        let is_one = !one.is_null()
            && (*one).cmsg_type == libc::SCM_RIGHTS
            && (*one).cmsg_len >= libc::CMSG_LEN(4) as usize;
        is_one.then(|| {
            let raw = libc::CMSG_DATA(one).cast::<i32>().read_unaligned();
            OwnedFd::from_raw_fd(raw)
        })
    };
    Ok((n > 0).then(|| (&buffer[..n], fd)))
}

/// Two ends of such a line.
pub fn line() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [-1; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: writes two descriptors, which are ours.
    unsafe {
        match libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) {
            0 => Ok(ends.map(|fd| OwnedFd::from_raw_fd(fd)).into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn requests_and_answers_arrive_as_they_were_sent_with_their_descriptors() {
        let to = SocketAddr::new([192, 0, 2, 1].into(), 80);
        let to6 = SocketAddr::new("2001:db8::1".parse().unwrap(), 81);
        let query = [7; 300];
        let requests = [
            Request::Tcp(to),
            Request::Udp(to6),
            Request::Echo(to6.ip()),
            Request::Name {
                query: &query,
                long: true,
            },
        ];
        for request in requests {
            let message = request.encode(7);
            assert_eq!(Request::decode(&message), Some((7, request)));
            for cut in 0..HEAD {
                assert_eq!(Request::decode(&message[..cut]), None);
            }
        }
        let (a, b) = line().unwrap();
        let (sent, _other) = line().unwrap();
        Answer::Incoming(sent, 80).send(a.as_fd(), 9).unwrap();
        Answer::Refused(libc::ECONNREFUSED)
            .send(a.as_fd(), 10)
            .unwrap();
        drop(a);
        let mut buffer = vec![0; ROOM];
        let (message, fd) = receive(b.as_fd(), &mut buffer).unwrap().unwrap();
        let first = Answer::decode(message, fd);
        assert!(matches!(first, Some((9, Answer::Incoming(_, 80)))));
        let (message, fd) = receive(b.as_fd(), &mut buffer).unwrap().unwrap();
        let second = Answer::decode(message, fd);
        assert!(matches!(
            second,
            Some((10, Answer::Refused(libc::ECONNREFUSED)))
        ));
        assert!(receive(b.as_fd(), &mut buffer).unwrap().is_none());
    }
}

//! The gateway's own sockets, which take what is for anybody.

use super::rules::PORT;
use crate::kernel::Kernel;
use crate::net::address::decode;
use crate::net::socket::Socket;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tane_net::user::addresses::{NAMES4, NAMES6};

const IP_TRANSPARENT: i32 = 19;
const IP_RECVORIGDSTADDR: i32 = 20;
const IPV6_TRANSPARENT: i32 = 75;
const IPV6_RECVORIGDSTADDR: i32 = 74;
const BACKLOG: u32 = 4096;
const NAMES_PORT: u16 = 53;
/// Room for datagrams that begin flows, and for queries.
const ROOM: i32 = 4 << 20;

/// For IPv4 and for IPv6.
pub type Both = [Socket; 2];

pub struct Sockets {
    pub connections: Both,
    pub datagrams: Both,
    pub names: Both,
    pub long_names: Both,
    pub packets: Both,
}

fn is_4(address: &SocketAddr) -> bool {
    address.is_ipv4()
}

/// Take what is for any address, and speak as any.
pub fn make_transparent(socket: &Socket, is_4: bool) -> io::Result<()> {
    match is_4 {
        true => socket.set(libc::SOL_IP, IP_TRANSPARENT, &1i32),
        false => socket.set(libc::SOL_IPV6, IPV6_TRANSPARENT, &1i32),
    }
}

fn bound(kernel: &Kernel, address: SocketAddr, kind: i32) -> io::Result<Socket> {
    let socket = Socket::for_address(kernel, &address, kind | libc::SOCK_NONBLOCK)?;
    if !is_4(&address) {
        socket.set(libc::SOL_IPV6, libc::IPV6_V6ONLY, &1i32)?;
    }
    if kind == libc::SOCK_DGRAM {
        socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM)?;
    }
    if address.ip().is_unspecified() {
        make_transparent(&socket, is_4(&address))?;
        if kind == libc::SOCK_DGRAM {
            match is_4(&address) {
                true => socket.set(libc::SOL_IP, IP_RECVORIGDSTADDR, &1i32)?,
                false => socket.set(libc::SOL_IPV6, IPV6_RECVORIGDSTADDR, &1i32)?,
            }
        }
    }
    socket.bind(&address)?;
    if kind == libc::SOCK_STREAM {
        socket.listen(BACKLOG)?;
    }
    Ok(socket)
}

impl Sockets {
    /// In the calling thread's namespace.
    pub fn open(kernel: &Kernel) -> io::Result<Self> {
        let both = |four: IpAddr, six: IpAddr, port, kind| -> io::Result<Both> {
            let of = |ip| bound(kernel, SocketAddr::new(ip, port), kind);
            Ok([of(four)?, of(six)?])
        };
        let any = |kind| {
            let (four, six) = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
            both(four.into(), six.into(), PORT, kind)
        };
        let names = |kind| both(NAMES4.into(), NAMES6.into(), NAMES_PORT, kind);
        let raw = |family| {
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK;
            Socket::new(kernel, family, kind, libc::IPPROTO_RAW)
        };
        Ok(Self {
            connections: any(libc::SOCK_STREAM)?,
            datagrams: any(libc::SOCK_DGRAM)?,
            names: names(libc::SOCK_DGRAM)?,
            long_names: names(libc::SOCK_STREAM)?,
            packets: [raw(libc::AF_INET)?, raw(libc::AF_INET6)?],
        })
    }

    /// Send a packet that begins with its IP header. One that does not go is lost.
    pub fn send_packet(&self, packet: &[u8], to: IpAddr) {
        let socket = &self.packets[usize::from(to.is_ipv6())];
        let _ = socket.send(packet, Some(&SocketAddr::new(to, 0)), libc::MSG_DONTWAIT);
    }
}

/// A socket for datagrams that speaks as `to` with `from`.
pub fn datagrams(kernel: &Kernel, from: SocketAddr, to: SocketAddr) -> io::Result<Socket> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK;
    let socket = Socket::for_address(kernel, &to, kind)?;
    make_transparent(&socket, is_4(&to))?;
    // Others speak as the same, with somebody else.
    socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
    socket.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM)?;
    socket.bind(&to)?;
    socket.connect(&from)?;
    Ok(socket)
}

/// Room for one address beside a datagram, aligned as `cmsghdr` must be.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// A datagram for anybody: how long it is, from whom and for whom.
pub fn receive(
    socket: &Socket,
    to: &mut [u8],
) -> io::Result<Option<(usize, SocketAddr, SocketAddr)>> {
    let mut part = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: to.len(),
    };
    let (mut from, mut control) = ([0u8; 28], Control([0; 64]));
    // SAFETY: zeros are a header without anything.
    let mut head: libc::msghdr = unsafe { std::mem::zeroed() };
    head.msg_name = from.as_mut_ptr().cast();
    head.msg_namelen = 28;
    head.msg_iov = &raw mut part;
    head.msg_iovlen = 1;
    head.msg_control = control.0.as_mut_ptr().cast();
    head.msg_controllen = control.0.len();
    let args = [&raw mut head as u64, libc::MSG_DONTWAIT as u64];
    // SAFETY: all that the header leads to is ours.
    let n = unsafe { socket.call(libc::SYS_recvmsg, &args)? } as usize;
    // SAFETY: Linux filled what lies in `control`, and says how much.
    let meant = unsafe {
        let one = libc::CMSG_FIRSTHDR(&raw const head);
        let is_address =
            !one.is_null() && matches!((*one).cmsg_type, IP_RECVORIGDSTADDR | IPV6_RECVORIGDSTADDR);
        is_address.then(|| {
            let mut bytes = [0u8; 28];
            let length = ((*one).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = libc::CMSG_DATA(one);
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr(), length.min(28));
            bytes
        })
    };
    let ends = (decode(&from), meant.as_ref().and_then(decode));
    Ok(match ends {
        (Some(from), Some(to)) => Some((n, plain(from), plain(to))),
        _ => None,
    })
}

/// Without what IPv6 has beside address and port.
pub fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

//! UDP, as std::net has it.

use super::names::{first, ToAddresses};
use super::socket::{End, Socket};
use crate::kernel::Kernel;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

const UDP_SEGMENT: i32 = 103;

/// A UDP socket of a kernel's; like [`std::net::UdpSocket`].
pub struct UdpSocket(pub(super) Socket);

impl UdpSocket {
    /// A socket at this address of the kernel's; port 0: any that is free.
    pub fn bind(kernel: &Kernel, address: impl ToAddresses) -> io::Result<Self> {
        first(kernel, address, |address| {
            let socket = Socket::for_address(kernel, address, libc::SOCK_DGRAM)?;
            socket.bind(address)?;
            Ok(Self(socket))
        })
    }

    /// Send to and receive from this address alone: the first one of a name's that there is
    /// a way to.
    pub fn connect(&self, address: impl ToAddresses) -> io::Result<()> {
        first(self.0.kernel(), address, |address| self.0.connect(address))
    }

    /// Its address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.address(End::Local)
    }

    /// The address that it is connected to.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.address(End::Peer)
    }

    /// Send a datagram.
    pub fn send_to(&self, from: &[u8], address: impl Into<SocketAddr>) -> io::Result<usize> {
        self.0.send(from, Some(&address.into()), 0)
    }

    /// Receive a datagram, and where it comes from. What does not fit is lost.
    pub fn recv_from(&self, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (n, address) = self.0.receive(to, 0, true)?;
        let address = address.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
        Ok((n, address))
    }

    /// Send a datagram to the address that it is connected to.
    pub fn send(&self, from: &[u8]) -> io::Result<usize> {
        self.0.send(from, None, 0)
    }

    /// Receive a datagram from there.
    pub fn recv(&self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.receive(to, 0, false)?.0)
    }

    /// Read a datagram from there without taking it.
    pub fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.receive(to, libc::MSG_PEEK, false)?.0)
    }

    /// Cut what is sent into datagrams of so many bytes, as late as possible
    /// (UDP_SEGMENT of udp(7)); 0: send it as it is.
    pub fn set_segment(&self, bytes: u16) -> io::Result<()> {
        self.0.set(libc::SOL_UDP, UDP_SEGMENT, &i32::from(bytes))
    }

    /// How long receiving waits; `None`: for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_timeout(libc::SO_RCVTIMEO, timeout)
    }

    /// How long sending waits; `None`: for ever.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_timeout(libc::SO_SNDTIMEO, timeout)
    }

    /// Whether it may send to all of a network.
    pub fn set_broadcast(&self, yes: bool) -> io::Result<()> {
        let yes = i32::from(yes);
        self.0.set(libc::SOL_SOCKET, libc::SO_BROADCAST, &yes)
    }

    /// Have calls that would wait answer WouldBlock.
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.0.set_nonblocking(yes)
    }

    /// The error that is pending, which is none any more.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Another handle of the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Its descriptor inside its kernel, for [`Kernel::syscall`]. It stays the socket's.
    pub fn kernel_fd(&self) -> i32 {
        self.0.raw()
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket")
            .field("local", &self.local_addr().ok())
            .field("kernel", self.0.kernel())
            .finish()
    }
}

//! TCP, as std::net has it.

use super::names::{first, ToAddresses};
use super::socket::{End, Socket};
use crate::kernel::Kernel;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

/// As std's.
const BACKLOG: u32 = 128;

/// A TCP connection of a kernel's; like [`std::net::TcpStream`].
pub struct TcpStream(pub(super) Socket);

/// A socket that waits for connections; like [`std::net::TcpListener`].
pub struct TcpListener(pub(super) Socket);

impl TcpStream {
    /// Connect to this address, such as `([10, 0, 0, 2], 80)` or `"example.com:80"`: to the
    /// first one of the name's that answers. Waits until it does.
    pub fn connect(kernel: &Kernel, address: impl ToAddresses) -> io::Result<Self> {
        first(kernel, address, |address| {
            let socket = Socket::for_address(kernel, address, libc::SOCK_STREAM)?;
            socket.connect(address)?;
            Ok(Self(socket))
        })
    }

    /// The same, and at most so long.
    ///
    /// Errors: [`TimedOut`](io::ErrorKind::TimedOut), also when the kernel itself gives up.
    pub fn connect_timeout(
        kernel: &Kernel,
        address: &SocketAddr,
        timeout: Duration,
    ) -> io::Result<Self> {
        let socket = Socket::for_address(kernel, address, libc::SOCK_STREAM)?;
        socket.set_timeout(libc::SO_SNDTIMEO, Some(timeout))?;
        socket
            .connect(address)
            .map_err(|error| match error.raw_os_error() {
                // What has begun goes on, but not here.
                Some(libc::EINPROGRESS) => io::ErrorKind::TimedOut.into(),
                _ => error,
            })?;
        socket.set_timeout(libc::SO_SNDTIMEO, None)?;
        Ok(Self(socket))
    }

    /// The other end's address.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.address(End::Peer)
    }

    /// This end's address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.address(End::Local)
    }

    /// End one direction, or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Another handle of the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// How long a read waits; `None`: for ever.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_timeout(libc::SO_RCVTIMEO, timeout)
    }

    /// How long a write waits; `None`: for ever.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_timeout(libc::SO_SNDTIMEO, timeout)
    }

    /// How long a read waits.
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        self.0.timeout(libc::SO_RCVTIMEO)
    }

    /// How long a write waits.
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        self.0.timeout(libc::SO_SNDTIMEO)
    }

    /// Read without taking it.
    pub fn peek(&self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.receive(to, libc::MSG_PEEK, false)?.0)
    }

    /// Send small pieces at once, not collected.
    pub fn set_nodelay(&self, yes: bool) -> io::Result<()> {
        let yes = i32::from(yes);
        self.0.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, &yes)
    }

    /// Whether small pieces are sent at once.
    pub fn nodelay(&self) -> io::Result<bool> {
        let nodelay = self.0.get(libc::IPPROTO_TCP, libc::TCP_NODELAY, 0i32)?;
        Ok(nodelay != 0)
    }

    /// Have calls that would wait answer WouldBlock.
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.0.set_nonblocking(yes)
    }

    /// The error that is pending, which is none any more.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Its descriptor inside its kernel, for [`Kernel::syscall`]. It stays the stream's.
    pub fn kernel_fd(&self) -> i32 {
        self.0.raw()
    }
}

impl Read for &TcpStream {
    #[inline]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        Ok(self.0.receive(to, 0, false)?.0)
    }
}

impl Write for &TcpStream {
    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.send(from, None, 0)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for TcpStream {
    #[inline]
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        (&*self).read(to)
    }
}

impl Write for TcpStream {
    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TcpListener {
    /// Wait for connections at this address of the kernel's; port 0: any that is free.
    pub fn bind(kernel: &Kernel, address: impl ToAddresses) -> io::Result<Self> {
        Self::bind_with_backlog(kernel, address, BACKLOG)
    }

    /// The same with room for so many connections that nobody has accepted yet; at most
    /// /proc/sys/net/core/somaxconn.
    pub fn bind_with_backlog(
        kernel: &Kernel,
        address: impl ToAddresses,
        backlog: u32,
    ) -> io::Result<Self> {
        first(kernel, address, |address| {
            let socket = Socket::for_address(kernel, address, libc::SOCK_STREAM)?;
            // As std does: a server that ended can be started again at once.
            socket.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1i32)?;
            socket.bind(address)?;
            socket.listen(backlog)?;
            Ok(Self(socket))
        })
    }

    /// Its address.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.address(End::Local)
    }

    /// The error that is pending, which is none any more.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// Its descriptor inside its kernel, for [`Kernel::syscall`]. It stays the listener's.
    pub fn kernel_fd(&self) -> i32 {
        self.0.raw()
    }

    /// The next connection, and where it comes from.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, address) = self.0.accept()?;
        Ok((TcpStream(socket), address))
    }

    /// All connections that come, without end.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }

    /// Another handle of the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Have calls that would wait answer WouldBlock.
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        self.0.set_nonblocking(yes)
    }
}

/// Connections as they come; see [`TcpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a>(&'a TcpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .field("kernel", self.0.kernel())
            .finish()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener")
            .field("local", &self.local_addr().ok())
            .field("kernel", self.0.kernel())
            .finish()
    }
}

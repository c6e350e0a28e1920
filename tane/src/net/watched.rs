//! Sockets that the host's poll(2) and epoll(7) wait for, as tokio's `AsyncFd` takes them.

use super::socket::Socket;
use super::{TcpListener, TcpStream, UdpSocket};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// A socket of a kernel's that does not wait, and a descriptor of the host's
/// ([`AsFd`], [`AsRawFd`]) that is readable and writable when the socket is: who got
/// [`WouldBlock`](io::ErrorKind::WouldBlock) waits for that one with poll(2), epoll(7), or
/// what is made of them, and calls again. For nothing else: it is not read or written.
///
/// ```no_run
/// # use std::io::Read;
/// # use std::os::fd::AsRawFd;
/// # let kernel = tane::Kernel::boot()?;
/// use tane::net::{TcpStream, Watched};
///
/// let stream = Watched::new(TcpStream::connect(&kernel, ([127, 0, 0, 1], 80))?)?;
/// let mut polled = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLIN, revents: 0 };
/// unsafe { libc::poll(&mut polled, 1, -1) };
/// let n = (&*stream).read(&mut [0; 100])?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// It is the same descriptor as long as the socket exists, which is what tokio's
/// `AsyncFd::register` asks for; tane/tests/net_tokio.rs has a stream that is tokio's
/// `AsyncRead` and `AsyncWrite`. It costs two descriptors of the host's and, for all of a
/// kernel's together, a thread that sleeps while nothing happens: see
/// [`Watch`](crate::Watch).
pub struct Watched<S: AsRef<Socket>> {
    socket: S,
    shown: RawFd,
}

impl<S: AsRef<Socket>> Watched<S> {
    /// Have this one watched, and its calls not wait.
    ///
    /// Errors: EMFILE the host's limit on descriptors; ESHUTDOWN the kernel has ended.
    pub fn new(socket: S) -> io::Result<Self> {
        socket.as_ref().set_nonblocking(true)?;
        let shown = socket.as_ref().watch()?.as_raw_fd();
        Ok(Self { socket, shown })
    }

    /// The socket, whose calls still do not wait.
    pub fn into_inner(self) -> S {
        self.socket
    }
}

impl<S: AsRef<Socket>> Deref for Watched<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.socket
    }
}

impl<S: AsRef<Socket>> AsRawFd for Watched<S> {
    fn as_raw_fd(&self) -> RawFd {
        self.shown
    }
}

impl<S: AsRef<Socket>> AsFd for Watched<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it exists as long as the socket.
        unsafe { BorrowedFd::borrow_raw(self.shown) }
    }
}

impl<S: AsRef<Socket> + std::fmt::Debug> std::fmt::Debug for Watched<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watched").field(&self.socket).finish()
    }
}

impl AsRef<Socket> for Socket {
    fn as_ref(&self) -> &Socket {
        self
    }
}

impl AsRef<Socket> for TcpStream {
    fn as_ref(&self) -> &Socket {
        &self.0
    }
}

impl AsRef<Socket> for TcpListener {
    fn as_ref(&self) -> &Socket {
        &self.0
    }
}

impl AsRef<Socket> for UdpSocket {
    fn as_ref(&self) -> &Socket {
        &self.0
    }
}

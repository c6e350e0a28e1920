//! What sockets of all kinds have: socket(7).

use super::address::{decode, encode, SIZE};
use crate::kernel::Kernel;
use crate::sys::Fd;
use crate::watch::{Ready, Watch};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A socket inside a kernel, of any kind that its socket(2) makes: what
/// [`TcpStream`](super::TcpStream) and its like are made of, and for those that std has no
/// type for. Closed when dropped, with the last of its clones. Calls that a signal interrupted
/// go on.
pub struct Socket {
    fd: Fd,
    /// Shared by clones, which read what the others would have.
    watch: Arc<OnceLock<Watch>>,
}

/// What an address is asked of.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// The socket itself: getsockname(2).
    Local,
    /// Whom it is connected to: getpeername(2).
    Peer,
}

impl Socket {
    /// socket(2): numbers as there. It is closed in programs that the kernel executes.
    pub fn new(kernel: &Kernel, family: i32, kind: i32, protocol: i32) -> io::Result<Self> {
        let kind = kind | libc::SOCK_CLOEXEC;
        let args = [family as u64, kind as u64, protocol as u64];
        // SAFETY: three numbers.
        Self::own(kernel, || unsafe { call(kernel, libc::SYS_socket, &args) })
    }

    /// One for addresses like this.
    pub(crate) fn for_address(
        kernel: &Kernel,
        address: &SocketAddr,
        kind: i32,
    ) -> io::Result<Self> {
        let family = match address {
            SocketAddr::V4(_) => libc::AF_INET,
            SocketAddr::V6(_) => libc::AF_INET6,
        };
        Self::new(kernel, family, kind, 0)
    }

    fn own(kernel: &Kernel, open: impl FnMut() -> io::Result<u64>) -> io::Result<Self> {
        let (number, age) = kernel.dated(open)?;
        Ok(Self {
            fd: Fd::new(kernel, number as i32, age),
            watch: Arc::default(),
        })
    }

    /// Whose it is.
    pub fn kernel(&self) -> &Kernel {
        &self.fd.kernel
    }

    /// Its descriptor inside its kernel, for [`Kernel::syscall`]. It stays the socket's.
    pub fn raw(&self) -> i32 {
        self.fd.number()
    }

    /// A system call on it, with the arguments behind the descriptor.
    ///
    /// # Safety
    /// As of the call: pointers are to what it reads or writes.
    #[inline]
    pub unsafe fn call(&self, nr: i64, args: &[u64]) -> io::Result<u64> {
        let mut all = [0; 6];
        all[0] = self.fd.raw() as u64;
        all[1..=args.len()].copy_from_slice(args);
        // SAFETY: as the caller promises.
        unsafe { call(&self.fd.kernel, nr, &all) }
    }

    /// The same of one after which it may be ready for something no longer: to read after
    /// recvmsg(2), to write after sendmsg(2), either after connect(2).
    ///
    /// # Safety
    /// As of [`Socket::call`].
    #[inline]
    pub unsafe fn call_that_takes(&self, ready: Ready, nr: i64, args: &[u64]) -> io::Result<u64> {
        // SAFETY: as the caller promises.
        let result = unsafe { self.call(nr, args) };
        if let Some(watch) = self.watch.get() {
            match &result {
                Err(error) if is_waiting(error) => watch.would_block(ready),
                _ => watch.look_again(ready),
            }
        }
        result
    }

    /// A descriptor of the host's that is readable and writable when the socket is, for poll(2)
    /// and epoll(7) and nothing else: see [`Watch`]. It is the same each time, up to date when
    /// this returns, and exists as long as the socket and its clones.
    pub fn watch(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(watch) = self.watch.get() {
            watch.catch_up();
            return Ok(watch.as_fd());
        }
        let watch = self.fd.kernel.watch(self.raw())?;
        // Another thread may have been faster.
        Ok(self.watch.get_or_init(|| watch).as_fd())
    }

    /// bind(2)
    pub fn bind(&self, address: &SocketAddr) -> io::Result<()> {
        let (bytes, len) = encode(address);
        // SAFETY: reads an address of this length.
        unsafe { self.call(libc::SYS_bind, &[bytes.as_ptr() as u64, len as u64])? };
        Ok(())
    }

    /// connect(2)
    pub fn connect(&self, address: &SocketAddr) -> io::Result<()> {
        let (bytes, len) = encode(address);
        let args = [bytes.as_ptr() as u64, len as u64];
        // SAFETY: reads an address of this length.
        unsafe { self.call_that_takes(Ready::BOTH, libc::SYS_connect, &args)? };
        Ok(())
    }

    /// listen(2)
    pub fn listen(&self, backlog: u32) -> io::Result<()> {
        // SAFETY: a number.
        unsafe { self.call_that_takes(Ready::BOTH, libc::SYS_listen, &[backlog.into()])? };
        Ok(())
    }

    /// accept4(2), of the Internet's families.
    pub fn accept(&self) -> io::Result<(Self, SocketAddr)> {
        let (mut bytes, mut len) = ([0u8; SIZE], SIZE as u32);
        let flags = libc::SOCK_CLOEXEC as u64;
        let args = [bytes.as_mut_ptr() as u64, &raw mut len as u64, flags];
        let socket = Self::own(self.kernel(), || {
            // SAFETY: writes an address of at most this length, and how long it is.
            unsafe { self.call_that_takes(Ready::READ, libc::SYS_accept4, &args) }
        })?;
        Ok((socket, internet(&bytes)?))
    }

    /// accept4(2) of any family: what writes where the connection comes from is the caller's.
    ///
    /// # Safety
    /// `address` and `length` are 0, or pointers as of the call.
    pub unsafe fn accept_raw(&self, address: u64, length: u64, flags: i32) -> io::Result<Self> {
        let args = [address, length, (flags | libc::SOCK_CLOEXEC) as u64];
        Self::own(self.kernel(), || {
            // SAFETY: as the caller promises.
            unsafe { self.call_that_takes(Ready::READ, libc::SYS_accept4, &args) }
        })
    }

    /// The address of either end, of the Internet's families.
    pub fn address(&self, end: End) -> io::Result<SocketAddr> {
        let (mut bytes, mut len) = ([0u8; SIZE], SIZE as u32);
        let nr = match end {
            End::Local => libc::SYS_getsockname,
            End::Peer => libc::SYS_getpeername,
        };
        // SAFETY: writes an address of at most this length, and how long it is.
        unsafe { self.call(nr, &[bytes.as_mut_ptr() as u64, &raw mut len as u64])? };
        internet(&bytes)
    }

    /// sendto(2). A peer that is gone is an error and no signal.
    #[inline]
    pub fn send(&self, from: &[u8], to: Option<&SocketAddr>, flags: i32) -> io::Result<usize> {
        let flags = (flags | libc::MSG_NOSIGNAL) as u64;
        let address = to.map(encode);
        let (at, len) = match &address {
            Some((bytes, len)) => (bytes.as_ptr() as u64, *len as u64),
            None => (0, 0),
        };
        let args = [from.as_ptr() as u64, from.len() as u64, flags, at, len];
        // SAFETY: reads these bytes and an address of this length.
        let n = unsafe { self.call_that_takes(Ready::WRITE, libc::SYS_sendto, &args)? };
        Ok(n as usize)
    }

    /// recvfrom(2): with where it came from, if that was asked for.
    #[inline]
    pub fn receive(
        &self,
        to: &mut [u8],
        flags: i32,
        from: bool,
    ) -> io::Result<(usize, Option<SocketAddr>)> {
        let (mut bytes, mut len) = ([0u8; SIZE], SIZE as u32);
        let mut args = [to.as_mut_ptr() as u64, to.len() as u64, flags as u64, 0, 0];
        if from {
            args[3] = bytes.as_mut_ptr() as u64;
            args[4] = &raw mut len as u64;
        }
        // SAFETY: writes into these bytes, and an address of at most this length.
        let n = unsafe { self.call_that_takes(Ready::READ, libc::SYS_recvfrom, &args)? };
        Ok((n as usize, if from { decode(&bytes) } else { None }))
    }

    /// shutdown(2)
    pub fn shutdown(&self, how: std::net::Shutdown) -> io::Result<()> {
        let how = match how {
            std::net::Shutdown::Read => libc::SHUT_RD,
            std::net::Shutdown::Write => libc::SHUT_WR,
            std::net::Shutdown::Both => libc::SHUT_RDWR,
        };
        // SAFETY: a number.
        unsafe { self.call(libc::SYS_shutdown, &[how as u64])? };
        Ok(())
    }

    /// setsockopt(2)
    pub fn set<T>(&self, level: i32, option: i32, value: &T) -> io::Result<()> {
        let at = std::ptr::from_ref(value) as u64;
        let args = [level as u64, option as u64, at, size_of::<T>() as u64];
        // SAFETY: reads a value of this length.
        unsafe { self.call(libc::SYS_setsockopt, &args)? };
        Ok(())
    }

    /// getsockopt(2): `value` is filled, as far as the kernel has so much.
    pub(crate) fn get<T: Copy>(&self, level: i32, option: i32, mut value: T) -> io::Result<T> {
        let mut len = size_of::<T>() as u32;
        let at = &raw mut value as u64;
        let args = [level as u64, option as u64, at, &raw mut len as u64];
        // SAFETY: writes at most a value of this length: numbers, of which all bits are
        // possible.
        unsafe { self.call(libc::SYS_getsockopt, &args)? };
        Ok(value)
    }

    /// SO_RCVTIMEO or SO_SNDTIMEO; as std has it, no timeout is none and zero an error.
    pub fn set_timeout(&self, option: i32, timeout: Option<Duration>) -> io::Result<()> {
        if timeout == Some(Duration::ZERO) {
            let text = "a timeout of zero";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let timeout = timeout.unwrap_or_default();
        let seconds = timeout.as_secs().min(i64::MAX as u64) as i64;
        let mut micros = i64::from(timeout.subsec_micros());
        if !timeout.is_zero() && seconds == 0 && micros == 0 {
            // Zero would be none.
            micros = 1;
        }
        self.set(libc::SOL_SOCKET, option, &[seconds, micros])
    }

    /// What [`Socket::set_timeout`] has set.
    pub fn timeout(&self, option: i32) -> io::Result<Option<Duration>> {
        let [seconds, micros] = self.get(libc::SOL_SOCKET, option, [0i64; 2])?;
        let timeout = Duration::new(seconds as u64, micros as u32 * 1000);
        Ok((!timeout.is_zero()).then_some(timeout))
    }

    /// Have calls that would wait answer EAGAIN.
    pub fn set_nonblocking(&self, yes: bool) -> io::Result<()> {
        let yes = libc::c_int::from(yes);
        let at = &raw const yes as u64;
        // SAFETY: reads a number.
        unsafe { self.call(libc::SYS_ioctl, &[libc::FIONBIO, at])? };
        Ok(())
    }

    /// The error that is pending, which is none any more: SO_ERROR.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let errno = self.get(libc::SOL_SOCKET, libc::SO_ERROR, 0i32)?;
        if let Some(watch) = self.watch.get() {
            watch.look_again(Ready::BOTH);
        }
        Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
    }

    /// Another handle of the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        let fd = self.fd.kernel.dup(&self.fd)?;
        let watch = self.watch.clone();
        Ok(Self { fd, watch })
    }
}

impl std::fmt::Debug for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Socket({} of {:?})", self.raw(), self.kernel())
    }
}

/// The answer comes later.
fn is_waiting(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    errno.is_some_and(|errno| [libc::EAGAIN, libc::EINPROGRESS, libc::EALREADY].contains(&errno))
}

fn internet(bytes: &[u8; SIZE]) -> io::Result<SocketAddr> {
    decode(bytes).ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))
}

/// # Safety
/// As of the call: pointers are to what it reads or writes.
#[inline]
unsafe fn call(kernel: &Kernel, nr: i64, args: &[u64]) -> io::Result<u64> {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    loop {
        // SAFETY: as the caller promises.
        match unsafe { kernel.try_syscall(nr, all) } {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|n| n as u64),
        }
    }
}

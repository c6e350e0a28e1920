//! Two descriptors between which bytes go: what is written into one comes out
//! of the other.

use crate::kernel::{check, Kernel};
use std::mem::size_of;

#[derive(Clone, Copy)]
pub struct Pair {
    pub into: i64,
    pub out: i64,
}

impl Pair {
    pub fn same(fd: i64) -> Self {
        Self { into: fd, out: fd }
    }

    pub fn pipe<K: Kernel>(kernel: &K) -> Result<Self, String> {
        let mut fds = [0i32; 2];
        // SAFETY: room for two descriptors.
        let made = unsafe { kernel.call(libc::SYS_pipe, [fds.as_mut_ptr() as u64, 0, 0, 0, 0, 0]) };
        check("pipe", made)?;
        Ok(Self {
            into: fds[1].into(),
            out: fds[0].into(),
        })
    }

    pub fn eventfd<K: Kernel>(kernel: &K) -> Result<Self, String> {
        // SAFETY: takes no pointers.
        let fd = unsafe { kernel.call(libc::SYS_eventfd2, [0; 6]) };
        check("eventfd", fd).map(Self::same)
    }

    pub fn unix<K: Kernel>(kernel: &K) -> Result<Self, String> {
        let mut fds = [0i32; 2];
        let [family, kind] = [libc::AF_UNIX, libc::SOCK_STREAM].map(|n| n as u64);
        let args = [family, kind, 0, fds.as_mut_ptr() as u64, 0, 0];
        // SAFETY: room for two descriptors.
        let made = unsafe { kernel.call(libc::SYS_socketpair, args) };
        check("socketpair", made)?;
        Ok(Self {
            into: fds[1].into(),
            out: fds[0].into(),
        })
    }

    pub fn udp<K: Kernel>(kernel: &K) -> Result<Self, String> {
        loopback_up(kernel)?;
        let out = socket(kernel, libc::SOCK_DGRAM)?;
        let address = bind(kernel, out)?;
        let into = socket(kernel, libc::SOCK_DGRAM)?;
        with(kernel, libc::SYS_connect, "connect", into, &address)?;
        Ok(Self { into, out })
    }

    pub fn tcp<K: Kernel>(kernel: &K) -> Result<Self, String> {
        loopback_up(kernel)?;
        let listener = socket(kernel, libc::SOCK_STREAM)?;
        let address = bind(kernel, listener)?;
        let call = |what, nr, args| {
            // SAFETY: the calls below take descriptors, numbers and null.
            check(what, unsafe { kernel.call(nr, args) })
        };
        let fd = listener as u64;
        call("listen", libc::SYS_listen, [fd, 1, 0, 0, 0, 0])?;
        let into = socket(kernel, libc::SOCK_STREAM)?;
        with(kernel, libc::SYS_connect, "connect", into, &address)?;
        let out = call("accept", libc::SYS_accept, [fd, 0, 0, 0, 0, 0])?;
        call("close", libc::SYS_close, [fd, 0, 0, 0, 0, 0])?;
        let one = 1i32;
        for end in [into, out] {
            let [level, name] = [libc::IPPROTO_TCP, libc::TCP_NODELAY].map(|n| n as u64);
            let value = &raw const one as u64;
            let args = [end as u64, level, name, value, 4, 0];
            call("TCP_NODELAY", libc::SYS_setsockopt, args)?;
        }
        Ok(Self { into, out })
    }

    pub fn close<K: Kernel>(&self, kernel: &K) {
        for fd in [self.into, self.out] {
            // SAFETY: our own descriptors; a second close of one is refused.
            unsafe { kernel.call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]) };
        }
    }
}

fn socket<K: Kernel>(kernel: &K, kind: i32) -> Result<i64, String> {
    let args = [libc::AF_INET as u64, kind as u64, 0, 0, 0, 0];
    // SAFETY: takes no pointers.
    check("socket", unsafe { kernel.call(libc::SYS_socket, args) })
}

/// To any free port of 127.0.0.1; returns which.
fn bind<K: Kernel>(kernel: &K, fd: i64) -> Result<libc::sockaddr_in, String> {
    // SAFETY: zeroes are an address.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as u16;
    address.sin_addr.s_addr = u32::from_ne_bytes([127, 0, 0, 1]);
    with(kernel, libc::SYS_bind, "bind to 127.0.0.1", fd, &address)?;
    let mut len = size_of::<libc::sockaddr_in>() as u32;
    let at = &raw mut address as u64;
    let args = [fd as u64, at, &raw mut len as u64, 0, 0, 0];
    // SAFETY: room for an address and its length.
    let named = unsafe { kernel.call(libc::SYS_getsockname, args) };
    check("getsockname", named)?;
    Ok(address)
}

fn with<K: Kernel>(
    kernel: &K,
    nr: i64,
    what: &str,
    fd: i64,
    address: &libc::sockaddr_in,
) -> Result<i64, String> {
    let len = size_of::<libc::sockaddr_in>() as u64;
    let args = [fd as u64, &raw const *address as u64, len, 0, 0, 0];
    // SAFETY: an address of that length.
    check(what, unsafe { kernel.call(nr, args) })
}

/// A fresh kernel's loopback is down; the host's is up, or not ours to change.
fn loopback_up<K: Kernel>(kernel: &K) -> Result<(), String> {
    let fd = socket(kernel, libc::SOCK_DGRAM)?;
    // SAFETY: zeroes are a request.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as i8;
    request.ifr_name[1] = b'o' as i8;
    // SAFETY: a request, read and written by the kernel; the flags are what the
    // first call left there.
    unsafe {
        let at = &raw mut request as u64;
        let get = [fd as u64, libc::SIOCGIFFLAGS, at, 0, 0, 0];
        check("the flags of lo", kernel.call(libc::SYS_ioctl, get))?;
        if request.ifr_ifru.ifru_flags & libc::IFF_UP as i16 == 0 {
            request.ifr_ifru.ifru_flags |= libc::IFF_UP as i16;
            let at = &raw const request as u64;
            let set = [fd as u64, libc::SIOCSIFFLAGS, at, 0, 0, 0];
            check("lo up", kernel.call(libc::SYS_ioctl, set))?;
        }
        kernel.call(libc::SYS_close, [fd as u64, 0, 0, 0, 0, 0]);
    }
    Ok(())
}

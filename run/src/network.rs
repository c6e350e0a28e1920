//! The network of the kernel: itself.

use std::ffi::c_char;

/// What brings the loopback interface up; `call` makes system calls of the new process.
/// A kernel without sockets has none, and one that is up stays so.
pub fn loop_back(call: impl Fn(i64, &[u64]) -> i64) {
    let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as u64;
    let socket = call(libc::SYS_socket, &[libc::AF_INET as u64, kind, 0]);
    let Ok(socket) = u64::try_from(socket) else {
        return;
    };
    // SAFETY: all zeros are one.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_LOOPBACK | libc::IFF_RUNNING) as i16;
    call(
        libc::SYS_ioctl,
        &[socket, libc::SIOCSIFFLAGS, &raw const request as u64],
    );
    call(libc::SYS_close, &[socket]);
}

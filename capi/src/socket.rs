//! tane_socket and what follows. Data and addresses go straight between the caller's memory
//! and the kernel, which answers bad pointers itself.

use crate::error::{answer, answer64, Failure, Result};
use crate::kernel::TaneKernel;
use crate::pass::{give, handle, take};
use std::ffi::c_void;
use std::io;
use std::os::fd::AsRawFd;
use tane::net::Socket;
use tane::Ready;

pub struct TaneSocket(pub Socket);

pub fn failed(action: &'static str) -> impl Fn(io::Error) -> Failure {
    move |error| Failure::of_errno(tane::errno_or_guess(&error), action)
}

/// A call on a socket that may take what it was ready for.
///
/// # Safety
/// As tane.h says of the call.
unsafe fn call(
    socket: *const TaneSocket,
    action: &'static str,
    takes: Option<Ready>,
    nr: i64,
    args: &[u64],
) -> i64 {
    // SAFETY: as the caller promises; the kernel refuses pointers to nowhere.
    answer64(|| unsafe {
        let socket = &handle(socket)?.0;
        let result = match takes {
            Some(ready) => socket.call_that_takes(ready, nr, args),
            None => socket.call(nr, args),
        };
        result.map(|n| n as i64).map_err(failed(action))
    })
}

fn at<T>(pointer: *const T) -> u64 {
    pointer as u64
}

#[no_mangle]
pub unsafe extern "C" fn tane_socket(
    kernel: *mut TaneKernel,
    domain: i32,
    kind: i32,
    protocol: i32,
    socket: *mut *mut TaneSocket,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        give(socket, || {
            let made = Socket::new(kernel, domain, kind, protocol);
            made.map(TaneSocket).map_err(failed("socket"))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_bind(
    socket: *mut TaneSocket,
    address: *const c_void,
    len: u32,
) -> i32 {
    let args = [at(address), len.into()];
    // SAFETY: as tane.h says.
    unsafe { call(socket, "bind", None, libc::SYS_bind, &args) as i32 }
}

#[no_mangle]
pub unsafe extern "C" fn tane_connect(
    socket: *mut TaneSocket,
    address: *const c_void,
    len: u32,
) -> i32 {
    let args = [at(address), len.into()];
    let takes = Some(Ready::BOTH);
    // SAFETY: as tane.h says.
    unsafe { call(socket, "connect", takes, libc::SYS_connect, &args) as i32 }
}

#[no_mangle]
pub unsafe extern "C" fn tane_listen(socket: *mut TaneSocket, backlog: i32) -> i32 {
    let takes = Some(Ready::BOTH);
    // SAFETY: a number.
    unsafe { call(socket, "listen", takes, libc::SYS_listen, &[backlog as u64]) as i32 }
}

#[no_mangle]
pub unsafe extern "C" fn tane_accept(
    socket: *mut TaneSocket,
    address: *mut c_void,
    len: *mut u32,
    flags: i32,
    accepted: *mut *mut TaneSocket,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let socket = &handle(socket)?.0;
        give(accepted, || {
            let one = socket.accept_raw(at(address), at(len), flags);
            one.map(TaneSocket).map_err(failed("accept"))
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_sendto(
    socket: *mut TaneSocket,
    data: *const c_void,
    size: usize,
    flags: i32,
    address: *const c_void,
    len: u32,
) -> i64 {
    let flags = (flags | libc::MSG_NOSIGNAL) as u64;
    let args = [at(data), size as u64, flags, at(address), len.into()];
    let takes = Some(Ready::WRITE);
    // SAFETY: as tane.h says.
    unsafe { call(socket, "send", takes, libc::SYS_sendto, &args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_recvfrom(
    socket: *mut TaneSocket,
    data: *mut c_void,
    size: usize,
    flags: i32,
    address: *mut c_void,
    len: *mut u32,
) -> i64 {
    let args = [at(data), size as u64, flags as u64, at(address), at(len)];
    let takes = Some(Ready::READ);
    // SAFETY: as tane.h says.
    unsafe { call(socket, "receive", takes, libc::SYS_recvfrom, &args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_sendmsg(
    socket: *mut TaneSocket,
    message: *const c_void,
    flags: i32,
) -> i64 {
    let args = [at(message), (flags | libc::MSG_NOSIGNAL) as u64];
    let takes = Some(Ready::WRITE);
    // SAFETY: as tane.h says.
    unsafe { call(socket, "send", takes, libc::SYS_sendmsg, &args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_recvmsg(
    socket: *mut TaneSocket,
    message: *mut c_void,
    flags: i32,
) -> i64 {
    let args = [at(message), flags as u64];
    let takes = Some(Ready::READ);
    // SAFETY: as tane.h says.
    unsafe { call(socket, "receive", takes, libc::SYS_recvmsg, &args) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_shutdown(socket: *mut TaneSocket, how: i32) -> i32 {
    // SAFETY: a number.
    unsafe { call(socket, "shutdown", None, libc::SYS_shutdown, &[how as u64]) as i32 }
}

#[no_mangle]
pub unsafe extern "C" fn tane_setsockopt(
    socket: *mut TaneSocket,
    level: i32,
    option: i32,
    value: *const c_void,
    len: u32,
) -> i32 {
    let args = [level as u64, option as u64, at(value), len.into()];
    // SAFETY: as tane.h says.
    unsafe { call(socket, "setsockopt", None, libc::SYS_setsockopt, &args) as i32 }
}

#[no_mangle]
pub unsafe extern "C" fn tane_getsockopt(
    socket: *mut TaneSocket,
    level: i32,
    option: i32,
    value: *mut c_void,
    len: *mut u32,
) -> i32 {
    let args = [level as u64, option as u64, at(value), at(len)];
    // SO_ERROR takes the error that it was ready for.
    let takes = (level == libc::SOL_SOCKET && option == libc::SO_ERROR).then_some(Ready::BOTH);
    // SAFETY: as tane.h says.
    unsafe { call(socket, "getsockopt", takes, libc::SYS_getsockopt, &args) as i32 }
}

#[no_mangle]
pub unsafe extern "C" fn tane_getsockname(
    socket: *mut TaneSocket,
    address: *mut c_void,
    len: *mut u32,
) -> i32 {
    let args = [at(address), at(len)];
    // SAFETY: as tane.h says.
    unsafe { call(socket, "getsockname", None, libc::SYS_getsockname, &args) as i32 }
}

#[no_mangle]
pub unsafe extern "C" fn tane_getpeername(
    socket: *mut TaneSocket,
    address: *mut c_void,
    len: *mut u32,
) -> i32 {
    let args = [at(address), at(len)];
    // SAFETY: as tane.h says.
    unsafe { call(socket, "getpeername", None, libc::SYS_getpeername, &args) as i32 }
}

/// Something of a socket, as a number.
///
/// # Safety
/// As tane.h says.
unsafe fn of(socket: *const TaneSocket, what: impl FnOnce(&Socket) -> Result<i32>) -> i32 {
    // SAFETY: as the caller promises.
    answer(|| what(&unsafe { handle(socket) }?.0))
}

#[no_mangle]
pub unsafe extern "C" fn tane_socket_nonblocking(socket: *mut TaneSocket, yes: i32) -> i32 {
    let set = |socket: &Socket| {
        let set = socket.set_nonblocking(yes != 0);
        set.map(|()| 0).map_err(failed("ioctl"))
    };
    // SAFETY: as tane.h says.
    unsafe { of(socket, set) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_socket_fd(socket: *const TaneSocket) -> i32 {
    // SAFETY: as tane.h says.
    unsafe { of(socket, |socket| Ok(socket.raw())) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_socket_poll_fd(socket: *mut TaneSocket) -> i32 {
    let watch = |socket: &Socket| {
        let watch = socket.watch().map(|fd| fd.as_raw_fd());
        watch.map_err(failed("watch the socket"))
    };
    // SAFETY: as tane.h says.
    unsafe { of(socket, watch) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_socket_close(socket: *mut TaneSocket) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(socket) });
        Ok(0)
    });
}

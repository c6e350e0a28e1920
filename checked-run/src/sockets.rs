//! Sockets of a kernel's network, for modules that are allowed some: of IP, and what they are
//! set to is numbers. So none names a file, changes the kernel's network or sees what others
//! send, and none has the kernel keep or map memory.

use crate::calls::Call;
use crate::memory::Memory;
use crate::Import;

/// The calls that are looked at here, and made by the host.
pub const CHECKED: &[Call] = &[
    Call::by_host("socket", libc::SYS_socket),
    Call::by_host("setsockopt", libc::SYS_setsockopt),
    Call::by_host("getsockopt", libc::SYS_getsockopt),
    Call::by_host("fcntl", libc::SYS_fcntl),
];

/// socket(7), tcp(7) and ipv6(7): options that are an int.
const OPTIONS: &[(i32, i32)] = &[
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_BROADCAST),
    (libc::SOL_SOCKET, libc::SO_SNDBUF),
    (libc::SOL_SOCKET, libc::SO_RCVBUF),
    (libc::SOL_SOCKET, libc::SO_ERROR),
    (libc::SOL_SOCKET, libc::SO_TYPE),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
];
const INT: u64 = size_of::<i32>() as u64;
const FLAGS: i32 = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;

fn negative(errno: i32) -> u64 {
    -i64::from(errno) as u64
}

fn is_known(level: u64, option: u64) -> bool {
    OPTIONS.contains(&(level as i32, option as i32))
}

/// What a module may import of this.
pub fn import(name: &str) -> Option<Import> {
    Some(match name {
        "socket" => Box::new(|[domain, kind, protocol, ..], memory| {
            let domain = domain as i32;
            let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM];
            let protocols = [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP];
            if ![libc::AF_INET, libc::AF_INET6].contains(&domain) {
                return negative(libc::EAFNOSUPPORT);
            }
            if !kinds.contains(&(kind as i32 & !FLAGS)) || !protocols.contains(&(protocol as i32)) {
                return negative(libc::EPROTONOSUPPORT);
            }
            let args = [domain as u64, u64::from(kind as u32), protocol, 0, 0, 0];
            call(memory, libc::SYS_socket, args)
        }),
        "setsockopt" => Box::new(|[fd, level, option, value, bytes, ..], memory| {
            if !is_known(level, option) {
                return negative(libc::ENOPROTOOPT);
            }
            let value = value & u64::from(u32::MAX);
            // As Linux has it, which takes the first four of more.
            if (bytes as i32) < INT as i32 {
                return negative(libc::EINVAL);
            }
            if memory.read(value, INT as usize).is_none() {
                return negative(libc::EFAULT);
            }
            let value = memory.address(value);
            let args = [fd, level, option, value, INT, 0];
            call(memory, libc::SYS_setsockopt, args)
        }),
        "getsockopt" => Box::new(|[fd, level, option, value, bytes, ..], memory| {
            if !is_known(level, option) {
                return negative(libc::ENOPROTOOPT);
            }
            let low = |at: u64| at & u64::from(u32::MAX);
            let (value, bytes) = (memory.address(low(value)), memory.address(low(bytes)));
            call(
                memory,
                libc::SYS_getsockopt,
                [fd, level, option, value, bytes, 0],
            )
        }),
        "fcntl" => Box::new(|[fd, command, flags, ..], memory| {
            let args = [fd, libc::F_GETFL as u64, 0, 0, 0, 0];
            let now = call(memory, libc::SYS_fcntl, args);
            // An error, too.
            if command as i32 == libc::F_GETFL || (now as i64) < 0 {
                return now;
            }
            if command as i32 != libc::F_SETFL {
                return negative(libc::EINVAL);
            }
            // The others have the kernel send signals, or pin memory.
            let wait = libc::O_NONBLOCK as u64;
            let then = now & !wait | flags & wait;
            let args = [fd, libc::F_SETFL as u64, then, 0, 0, 0];
            call(memory, libc::SYS_fcntl, args)
        }),
        _ => return None,
    })
}

/// As the instance's task, whose kernel refuses pointers out of the window.
fn call(memory: &Memory, nr: i64, args: [u64; 6]) -> u64 {
    match memory.views.borrow_mut().program() {
        // SAFETY: pointers are into the window, and of calls that keep none.
        Some(program) => unsafe { program.syscall(nr, args) as u64 },
        None => negative(libc::ENOSYS),
    }
}

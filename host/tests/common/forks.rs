//! Processes of the tests: children that are to end well, and never run the tests' own
//! ends.
#![allow(dead_code)]

use crate::common::{boot_image, boot_with, syscall};
use std::sync::{Mutex, MutexGuard};
use tane_host::Kernel;

/// A fork copies the processes of all shared kernels, those of other tests too: one test
/// at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

/// A child of this process, by its two ids.
#[derive(Clone, Copy)]
pub struct Child {
    pub host: i32,
    pub linux: i32,
}

/// fork(2). The child does this and exits: with 0, unless it panics or exits itself.
pub fn fork(k: &Kernel, then: impl FnOnce()) -> Child {
    // SAFETY: a plain fork(2); the child calls what async-signal-unsafe code it calls
    // with glibc's own locks as they are to be.
    let host = unsafe { libc::fork() };
    assert!(host >= 0);
    if host == 0 {
        guarded(then);
    }
    let linux = k.forked().unwrap();
    Child { host, linux }
}

/// Do this in a child, and end it.
pub fn guarded(then: impl FnOnce()) -> ! {
    // A test that fails by waiting for ever fails all the same.
    // SAFETY: no memory involved.
    unsafe { libc::alarm(60) };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(then));
    exit(if done.is_ok() { 0 } else { 101 });
}

/// Do this in a process of its own, which boots kernels of its own, and see it end well.
pub fn in_process(then: impl FnOnce()) {
    // SAFETY: a plain fork(2).
    let host = unsafe { libc::fork() };
    assert!(host >= 0);
    if host == 0 {
        guarded(then);
    }
    assert_eq!(host_wait(host), 0, "14: by its alarm");
}

/// Without the program's own end.
pub fn exit(code: i32) -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(code) }
}

pub fn kill(host: i32) {
    // SAFETY: a child that nobody has waited for.
    assert_eq!(unsafe { libc::kill(host, libc::SIGKILL) }, 0);
}

/// waitpid(2) of the host: how it ended.
pub fn host_wait(host: i32) -> i32 {
    let mut status = -1;
    // SAFETY: writes a number of ours.
    assert_eq!(unsafe { libc::waitpid(host, &raw mut status, 0) }, host);
    status
}

pub fn boot() -> Kernel {
    boot_with(|builder| builder.shared = true)
}

/// An image and as many CPUs as that.
pub fn boot_cpus(cpus: u32) -> Kernel {
    boot_image("smp", |builder| {
        builder.shared = true;
        builder.cpus = cpus;
    })
}

pub fn pipe(k: &Kernel) -> [u64; 2] {
    let mut fds = [0i32; 2];
    assert_eq!(syscall(k, libc::SYS_pipe, &[fds.as_mut_ptr() as u64]), 0);
    fds.map(|fd| fd as u64)
}

pub fn close(k: &Kernel, fd: u64) {
    assert_eq!(syscall(k, libc::SYS_close, &[fd]), 0);
}

pub fn put(k: &Kernel, fd: u64, number: u64) -> i64 {
    syscall(k, libc::SYS_write, &[fd, &raw const number as u64, 8])
}

/// `None` at the end.
pub fn get(k: &Kernel, fd: u64) -> Option<u64> {
    let mut number = 0u64;
    match syscall(k, libc::SYS_read, &[fd, &raw mut number as u64, 8]) {
        8 => Some(number),
        0 => None,
        error => panic!("read: {error}"),
    }
}

/// Linux's own wait4(2): whose end, and how.
pub fn wait(k: &Kernel, pid: i32) -> (i64, i32) {
    let mut status = -1i32;
    let at = &raw mut status as u64;
    let ended = syscall(k, libc::SYS_wait4, &[pid as u64, at, 0, 0]);
    (ended, status)
}

/// Ended in Linux with this status, and in the host.
pub fn assert_ended(k: &Kernel, child: Child, status: i32) {
    let pid = child.linux;
    assert_eq!(wait(k, pid), (i64::from(pid), status), "{}", k.dmesg());
    assert_eq!(host_wait(child.host), status);
}

pub fn assert_exited(k: &Kernel, child: Child) {
    assert_ended(k, child, 0);
}

/// Numbers, each one greater than the last, there and back.
pub fn ping_pong(k: &Kernel, turns: u64) {
    let [there, back] = [pipe(k), pipe(k)];
    let child = fork(k, || {
        close(k, there[1]);
        close(k, back[0]);
        while let Some(number) = get(k, there[0]) {
            assert_eq!(put(k, back[1], number + 1), 8);
        }
    });
    close(k, there[0]);
    close(k, back[1]);
    for number in 0..turns {
        assert_eq!(put(k, there[1], number), 8);
        assert_eq!(get(k, back[0]), Some(number + 1));
    }
    close(k, there[1]);
    assert_eq!(get(k, back[0]), None);
    assert_exited(k, child);
    close(k, back[0]);
}

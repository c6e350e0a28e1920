//! Calls that a signal interrupts: they start again with the arguments they had, or
//! answer EINTR where somebody wanted the signal.

mod common;

use common::{boot, nap, syscall};
use std::time::Duration;
use tane_host::Kernel;

const USR1: u64 = 1 << (libc::SIGUSR1 - 1);

fn pipe(k: &Kernel) -> [i32; 2] {
    let mut ends = [0; 2];
    assert_eq!(
        syscall(k, libc::SYS_pipe2, &[ends.as_mut_ptr() as u64, 0]),
        0
    );
    ends
}

fn mask(k: &Kernel, new: Option<u64>) -> u64 {
    let mut old = 0u64;
    let new = new.as_ref().map_or(0, |new| &raw const *new as u64);
    let args = [libc::SIG_SETMASK as u64, new, &raw mut old as u64, 8];
    assert_eq!(syscall(k, libc::SYS_rt_sigprocmask, &args), 0);
    old
}

/// To a thread of process 1, by its number there.
fn kill(k: &Kernel, tid: i64) {
    let args = [1, tid as u64, libc::SIGUSR1 as u64];
    assert_eq!(syscall(k, libc::SYS_tgkill, &args), 0);
}

/// Waits with all six arguments until the pipe can be read, and with no signal blocked.
fn select(k: &Kernel, from: i32) -> i64 {
    let mut read = [0u64; 16];
    read[from as usize / 64] = 1 << (from % 64);
    let none = 0u64;
    let set = [&raw const none as u64, 8u64];
    let args = [
        from as u64 + 1,
        read.as_mut_ptr() as u64,
        0,
        0,
        0,
        set.as_ptr() as u64,
    ];
    syscall(k, libc::SYS_pselect6, &args)
}

#[test]
fn a_signal_that_nobody_wants_does_not_end_a_call() {
    let k = boot();
    let [from, to] = pipe(&k);
    let tid = syscall(&k, libc::SYS_gettid, &[]);
    // Pending as long as it is blocked; then process 1 ignores it.
    mask(&k, Some(USR1));
    kill(&k, tid);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            assert_eq!(
                syscall(&k, libc::SYS_write, &[to as u64, b"x".as_ptr() as u64, 1]),
                1
            );
        });
        assert_eq!(select(&k, from), 1);
    });
    // The mask of the call went with it.
    assert_eq!(mask(&k, None), USR1);
}

#[test]
fn a_signal_with_a_handler_ends_a_call_with_eintr() {
    let k = boot();
    let [from, _to] = pipe(&k);
    let tid = syscall(&k, libc::SYS_gettid, &[]);
    // Nobody runs it.
    let action = [2u64, 0, 0, 0];
    let args = [libc::SIGUSR1 as u64, action.as_ptr() as u64, 0, 8];
    assert_eq!(syscall(&k, libc::SYS_rt_sigaction, &args), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            nap(&k, 100);
            kill(&k, tid);
        });
        let mut byte = 0u8;
        let args = [from as u64, &raw mut byte as u64, 1];
        assert_eq!(syscall(&k, libc::SYS_read, &args), -i64::from(libc::EINTR));
    });
    std::thread::scope(|scope| {
        mask(&k, Some(USR1));
        kill(&k, tid);
        scope.spawn(|| ());
        assert_eq!(select(&k, from), -i64::from(libc::EINTR));
    });
    assert_eq!(mask(&k, None), USR1);
}

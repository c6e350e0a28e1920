//! Kernels give everything back. A test of its own process: it counts all that
//! the process has.

mod common;

use common::{boot, syscall};
use std::fs;

#[derive(Debug, PartialEq)]
struct Holdings {
    threads: usize,
    descriptors: usize,
    mappings: usize,
}

fn holdings() -> Holdings {
    Holdings {
        threads: fs::read_dir("/proc/self/task").unwrap().count(),
        descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
        mappings: fs::read_to_string("/proc/self/maps")
            .unwrap()
            .lines()
            .count(),
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// One life of a kernel, with threads that come, go, and are left inside.
fn round() {
    let k = boot();
    assert_eq!(syscall(&k, libc::SYS_getpid, &[]), 1);
    let done = std::thread::spawn({
        let k = k.clone();
        move || syscall(&k, libc::SYS_getppid, &[])
    });
    assert_eq!(done.join().unwrap(), 0);
    let blocked = std::thread::spawn({
        let k = k.clone();
        move || syscall(&k, libc::SYS_pause, &[])
    });
    k.halt();
    assert_eq!(blocked.join().unwrap(), -i64::from(libc::ESHUTDOWN));
}

#[test]
fn two_hundred_kernels_leave_nothing_behind() {
    for _ in 0..10 {
        round();
    }
    let (before, resident) = (holdings(), resident_kib());
    for _ in 0..200 {
        round();
    }
    assert_eq!(holdings(), before);
    let grown = resident_kib().saturating_sub(resident);
    assert!(
        grown < 1024,
        "resident memory grew by {grown} KiB in 200 rounds"
    );
}

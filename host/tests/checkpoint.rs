//! Promises about checkpoints of a kernel without disks.

mod common;

use common::{boot, boot_image, boot_with, nap, read_file, syscall, write_file};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use tane_host::{Deterministic, Kernel};

fn errno<T>(result: Result<T, tane_host::CheckpointError>) -> i32 {
    match result {
        Ok(_) => 0,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            error.errno
        }
    }
}

fn unlink(k: &Kernel, path: &std::ffi::CStr) -> i64 {
    syscall(
        k,
        libc::SYS_unlinkat,
        &[libc::AT_FDCWD as u64, path.as_ptr() as u64, 0],
    )
}

fn mkdir(k: &Kernel, path: &std::ffi::CStr) -> i64 {
    syscall(k, libc::SYS_mkdir, &[path.as_ptr() as u64, 0o755])
}

/// Files change, come and go; and come back as they were, again and again.
fn goes_back(k: &Kernel) {
    let long = vec![7u8; 40_000];
    assert_eq!(write_file(k, c"/long", &long), 40_000);
    assert_eq!(write_file(k, c"/f", b"one"), 3);
    let first = k.checkpoint().expect("a checkpoint");
    for round in 0..20 {
        assert_eq!(write_file(k, c"/f", b"two"), 3);
        assert_eq!(write_file(k, c"/long", &vec![round; 40_000]), 40_000);
        assert_eq!(unlink(k, c"/f"), 0);
        assert_eq!(mkdir(k, c"/new"), 0, "it is not there");
        assert_eq!(write_file(k, c"/new/g", &vec![round; 30_000]), 30_000);
        k.rollback(&first).expect("goes back");
        assert_eq!(read_file(k, c"/f"), b"one");
        assert_eq!(read_file(k, c"/long"), long);
    }
    // One in the other.
    assert_eq!(write_file(k, c"/f", b"two"), 3);
    let second = k.checkpoint().expect("a second");
    assert_eq!(write_file(k, c"/f", b"six"), 3);
    let third = k.checkpoint().expect("a third");
    assert_eq!(write_file(k, c"/f", b"ten"), 3);
    k.rollback(&third).expect("goes back to the third");
    assert_eq!(read_file(k, c"/f"), b"six");
    drop(third);
    k.rollback(&second).expect("goes back to the second");
    assert_eq!(read_file(k, c"/f"), b"two");
    k.rollback(&first).expect("goes back to the first");
    assert_eq!(read_file(k, c"/f"), b"one");
    assert_eq!(errno(k.rollback(&second)), libc::ESTALE);
    // What nobody goes back to any more does not disturb what is older.
    for text in [b"3rd", b"4th", b"5th"] {
        assert_eq!(write_file(k, c"/f", text), 3);
        drop(k.checkpoint().expect("one more"));
    }
    let kept = k.checkpoint().expect("one that stays");
    assert_eq!(write_file(k, c"/f", b"6th"), 3);
    k.rollback(&kept).expect("goes back");
    assert_eq!(read_file(k, c"/f"), b"5th");
    k.rollback(&first).expect("goes back to the first");
    assert_eq!(read_file(k, c"/f"), b"one");
    assert!(k.is_alive());
}

#[test]
fn a_kernel_goes_back_to_what_it_was() {
    goes_back(&boot());
}

#[test]
fn a_kernel_goes_back_where_the_host_cannot_tell_what_was_written() {
    goes_back(&boot_with(|builder| builder.compare = true));
}

#[test]
fn a_kernel_of_several_cpus_goes_back() {
    goes_back(&boot_image("smp", |builder| builder.cpus = 4));
}

/// Time goes on, and timers are due that were set before.
#[test]
fn a_kernel_that_went_back_sleeps_and_wakes() {
    let k = boot_image("smp", |builder| builder.cpus = 2);
    let checkpoint = k.checkpoint().expect("a checkpoint");
    for _ in 0..10 {
        nap(&k, 20);
        k.rollback(&checkpoint).expect("goes back");
    }
}

#[test]
fn time_that_stands_still_and_chance_go_back_too() {
    let k = boot_with(|builder| {
        builder.deterministic = Some(Deterministic {
            realtime: 1_000_000_000_000_000_000,
            seed: 1,
        });
    });
    let look = || {
        nap(&k, 5);
        let (mut time, mut bytes) = ([0u64; 2], [0u8; 16]);
        let clock = [libc::CLOCK_MONOTONIC as u64, (&raw mut time) as u64];
        assert_eq!(syscall(&k, libc::SYS_clock_gettime, &clock), 0);
        let random = [(&raw mut bytes) as u64, 16, 0];
        assert_eq!(syscall(&k, libc::SYS_getrandom, &random), 16);
        (time, bytes)
    };
    let checkpoint = k.checkpoint().expect("a checkpoint");
    let first = look();
    assert_ne!(look(), first);
    k.rollback(&checkpoint).expect("goes back");
    assert_eq!(look(), first);
}

/// Those that called since, those that did not, and those that have ended.
#[test]
fn threads_that_come_and_go_call_on() {
    for k in [boot(), boot_image("smp", |builder| builder.cpus = 3)] {
        assert_eq!(write_file(&k, c"/f", b"one"), 3);
        let works = |k: &Kernel| {
            let pid = syscall(k, libc::SYS_getpid, &[]);
            assert_eq!(pid, 1);
            assert_eq!(read_file(k, c"/f"), b"one");
        };
        thread::scope(|scope| {
            let (go, start) = mpsc::channel();
            let (done, ready) = mpsc::channel();
            let (k, done) = (&k, &done);
            // It calls before, and ends between.
            let (stop, stopped) = mpsc::channel::<()>();
            let ends = {
                let done = done.clone();
                scope.spawn(move || {
                    works(k);
                    done.send(()).expect("is awaited");
                    stopped.recv().ok();
                })
            };
            ready.recv().expect("it has called");
            let checkpoint = k.checkpoint().expect("a checkpoint");
            drop(stop);
            ends.join().expect("ends");
            let done = done.clone();
            scope.spawn(move || {
                while start.recv().is_ok() {
                    works(k);
                    done.send(()).expect("is awaited");
                }
            });
            for _ in 0..5 {
                go.send(()).expect("it listens");
                ready.recv().expect("it has called");
                thread::scope(|scope| {
                    scope.spawn(|| works(k));
                });
                k.rollback(&checkpoint).expect("goes back");
                works(k);
            }
        });
        works(&k);
    }
}

/// Threads that call all the time are kept waiting, and nothing of what they did before
/// is half there.
#[test]
fn a_kernel_under_load_goes_back() {
    for k in [boot(), boot_image("smp", |builder| builder.cpus = 4)] {
        for n in 0..3 {
            let path = std::ffi::CString::new(format!("/{n}")).expect("a name");
            assert_eq!(write_file(&k, &path, &0u64.to_le_bytes()), 8);
        }
        let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            for n in 0..3 {
                let (k, stop, rounds) = (&k, &stop, &rounds);
                scope.spawn(move || {
                    let path = std::ffi::CString::new(format!("/{n}")).expect("a name");
                    let mut count = 0u64;
                    while !stop.load(Ordering::SeqCst) {
                        count += 1;
                        let at = [libc::AT_FDCWD as u64, path.as_ptr() as u64];
                        let open = [at[0], at[1], libc::O_RDWR as u64, 0];
                        let fd = syscall(k, libc::SYS_openat, &open);
                        assert!(fd >= 0, "{fd}");
                        let word = count.to_le_bytes();
                        let args = [fd as u64, word.as_ptr() as u64, 8, 0];
                        // The descriptor may be of a time that was undone.
                        let n = syscall(k, libc::SYS_pwrite64, &args);
                        assert!(n == 8 || n == -i64::from(libc::EBADF), "{n}");
                        syscall(k, libc::SYS_close, &args[..1]);
                        rounds.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let checkpoint = k.checkpoint().expect("a checkpoint");
            let then: Vec<_> = [c"/0", c"/1", c"/2"].map(|p| read_file(&k, p)).to_vec();
            assert!(then.iter().all(|bytes| bytes.len() == 8));
            for round in 0..30 {
                while rounds.load(Ordering::SeqCst) < round * 20 {
                    thread::yield_now();
                }
                k.rollback(&checkpoint).expect("goes back");
            }
            stop.store(true, Ordering::SeqCst);
        });
        assert!(k.is_alive(), "{}", k.last_words());
    }
}

#[test]
fn a_call_that_waits_inside_is_named() {
    call_that_waits(false);
    call_that_waits(true);
}

fn call_that_waits(has_called: bool) {
    // A call is asked for by a request, or goes in by itself: who makes checkpoints meanwhile
    // has a part in which.
    let words = [
        "kernel (system call 0): have it end",
        "a call of another thread waits inside the kernel: have it end",
    ];
    let k = boot();
    let checkpoint = k.checkpoint().expect("a checkpoint");
    let mut ends = [0i32; 2];
    let pipe = [(&raw mut ends) as u64, 0];
    assert_eq!(syscall(&k, libc::SYS_pipe2, &pipe), 0);
    thread::scope(|scope| {
        let (k, ends) = (&k, ends);
        let (begun, begins) = mpsc::channel();
        scope.spawn(move || {
            let mut byte = 0u8;
            let calls = if has_called { 100 } else { 0 };
            (0..calls).for_each(|_| assert_eq!(syscall(k, libc::SYS_getpid, &[]), 1));
            begun.send(()).expect("is awaited");
            let args = [ends[0] as u64, (&raw mut byte) as u64, 1];
            assert_eq!(syscall(k, libc::SYS_read, &args), 1);
        });
        begins.recv().expect("it has begun");
        // Until it waits, it may as well be waited for.
        let refused = loop {
            match k.checkpoint() {
                Ok(_) => thread::yield_now(),
                Err(error) => break error,
            }
        };
        let back = errno(k.rollback(&checkpoint));
        // Before anything is asserted: the thread is waited for however this ends.
        let byte = 1u8;
        let args = [ends[1] as u64, (&raw const byte) as u64, 1];
        assert_eq!(syscall(k, libc::SYS_write, &args), 1);
        assert_eq!((refused.errno, back), (libc::EBUSY, libc::EBUSY));
        let text = refused.to_string();
        assert!(words.iter().any(|words| text.contains(words)), "{text}");
    });
    k.rollback(&checkpoint).expect("goes back");
}

#[test]
fn a_call_of_another_moment_is_not_done() {
    let k = boot();
    assert_eq!(k.moment(), 0);
    let make = |moment, path: &std::ffi::CStr| {
        let args = [path.as_ptr() as u64, 0o755, 0, 0, 0, 0];
        // SAFETY: a string.
        unsafe { k.syscall_within(moment, libc::SYS_mkdir, args) }
    };
    let checkpoint = k.checkpoint().expect("a checkpoint");
    assert_eq!((checkpoint.moment(), k.moment()), (0, 1));
    assert_eq!(make(0, c"/m"), None);
    assert_eq!(make(1, c"/m"), Some(0));
    let mut ended = None;
    k.rollback_and(&checkpoint, |moment| ended = Some(moment))
        .expect("goes back");
    assert_eq!((ended, k.moment()), (Some(1), 2));
    assert_eq!(make(1, c"/m"), None);
    assert_eq!(make(2, c"/m"), Some(0));
}

#[test]
fn what_cannot_be_is_an_error_that_says_why() {
    let (k, other) = (boot(), boot());
    let checkpoint = k.checkpoint().expect("a checkpoint");
    assert_eq!(errno(other.rollback(&checkpoint)), libc::EINVAL);
    let shared = boot_with(|builder| builder.shared = true);
    assert_eq!(errno(shared.checkpoint()), libc::ENOTSUP);
    k.halt();
    assert_eq!(errno(k.rollback(&checkpoint)), libc::ESHUTDOWN);
    assert_eq!(errno(k.checkpoint()), libc::ESHUTDOWN);
}

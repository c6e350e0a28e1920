//! Promises of several virtual CPUs (the smp image): threads that call, wait, wake each
//! other and end while CPUs come and go. scripts/sanitize has ThreadSanitizer look on.

mod common;

use common::{boot_image, nap, syscall, write_file};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tane_host::{Builder, Kernel};

const CPUS: u32 = 4;
const THREADS: u64 = 4;
const TIME: Duration = Duration::from_secs(3);

fn boot() -> Kernel {
    boot_with(|_| ())
}

fn boot_with(change: impl FnOnce(&mut Builder)) -> Kernel {
    let k = boot_image("smp", |builder| {
        builder.cpus = CPUS;
        change(builder);
    });
    let sysfs = c"sysfs".as_ptr() as u64;
    let at = c"/sys".as_ptr() as u64;
    syscall(&k, libc::SYS_mkdir, &[at, 0o755]);
    syscall(&k, libc::SYS_mount, &[sysfs, at, sysfs, 0, 0]);
    k
}

fn pipe(k: &Kernel) -> [u64; 2] {
    let mut fds = [0i32; 2];
    assert_eq!(syscall(k, libc::SYS_pipe, &[fds.as_mut_ptr() as u64]), 0);
    fds.map(|fd| fd as u64)
}

/// Take a number, add one and hand it on, until there are no more.
fn pass_on(k: &Kernel, from: u64, to: u64, stop: &AtomicBool) -> u64 {
    let mut passed = 0;
    loop {
        let mut number = 0u64;
        let at = &raw mut number as u64;
        if syscall(k, libc::SYS_read, &[from, at, 8]) != 8 {
            break;
        }
        passed += 1;
        assert!(number + 1 >= passed, "{number} after {passed}");
        let next = number + 1;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let at = &raw const next as u64;
        assert_eq!(syscall(k, libc::SYS_write, &[to, at, 8]), 8);
    }
    syscall(k, libc::SYS_close, &[to]);
    passed
}

/// All CPUs but the first go and come back; how often one went.
fn switch(k: &Kernel, stop: &AtomicBool) -> u64 {
    const SWITCHES: [&std::ffi::CStr; 3] = [
        c"/sys/devices/system/cpu/cpu1/online",
        c"/sys/devices/system/cpu/cpu2/online",
        c"/sys/devices/system/cpu/cpu3/online",
    ];
    let mut gone = 0;
    while !stop.load(Ordering::Relaxed) {
        for path in SWITCHES {
            assert_eq!(write_file(k, path, b"0"), 1, "{path:?}");
            gone += 1;
            nap(k, 5);
            assert_eq!(write_file(k, path, b"1"), 1, "{path:?}");
        }
        nap(k, 20);
    }
    gone
}

#[test]
fn calls_are_done_while_cpus_come_and_go() {
    let k = boot();
    let stop = AtomicBool::new(false);
    let plain: Vec<_> = (0..THREADS).map(|_| AtomicU64::new(0)).collect();
    let ring: Vec<_> = (0..THREADS).map(|_| pipe(&k)).collect();
    let (passed, gone) = std::thread::scope(|scope| {
        let (k, stop) = (&k, &stop);
        for count in &plain {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // One thread after the other: each begins and ends a task.
                    let calls = || {
                        for _ in 0..500 {
                            assert_eq!(syscall(k, libc::SYS_getppid, &[]), 0);
                        }
                        nap(k, 1);
                    };
                    std::thread::scope(|inner| inner.spawn(calls).join()).expect("calls");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let passers: Vec<_> = (0..ring.len())
            .map(|me| {
                let (from, to) = (ring[me][0], ring[(me + 1) % ring.len()][1]);
                scope.spawn(move || pass_on(k, from, to, stop))
            })
            .collect();
        let first = 0u64;
        let start = [ring[0][1], &raw const first as u64, 8];
        assert_eq!(syscall(k, libc::SYS_write, &start), 8);
        let switcher = scope.spawn(move || switch(k, stop));
        let over = Instant::now() + TIME;
        while Instant::now() < over {
            std::thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Ordering::Relaxed);
        let passed: Vec<_> = passers
            .into_iter()
            .map(|p| p.join().expect("ends"))
            .collect();
        (passed, switcher.join().expect("ends"))
    });
    assert!(gone > 0);
    assert!(passed.iter().all(|&passed| passed > 0), "{passed:?}");
    assert!(plain.iter().all(|count| count.load(Ordering::Relaxed) > 0));
    assert!(k.is_alive(), "{}", k.last_words());
}

#[test]
fn threads_answer_each_other_whether_they_look_or_sleep_at_once() {
    const ROUNDS: u64 = 2000;
    for spin in [true, false] {
        let k = boot_with(|builder| builder.spin = spin);
        let (there, back) = (pipe(&k), pipe(&k));
        std::thread::scope(|scope| {
            let none = AtomicBool::new(false);
            let k = &k;
            let answers = scope.spawn(move || pass_on(k, there[0], back[1], &none));
            for round in 0..ROUNDS {
                let mut number = 2 * round;
                let at = &raw mut number as u64;
                assert_eq!(syscall(k, libc::SYS_write, &[there[1], at, 8]), 8);
                assert_eq!(syscall(k, libc::SYS_read, &[back[0], at, 8]), 8);
                assert_eq!(number, 2 * round + 1);
            }
            syscall(k, libc::SYS_close, &[there[1]]);
            assert_eq!(answers.join().expect("ends"), ROUNDS);
        });
    }
}

#[test]
fn a_halt_ends_calls_that_wait_on_every_cpu() {
    let k = boot();
    let fds = pipe(&k);
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..2 * CPUS)
            .map(|_| {
                scope.spawn(|| {
                    let mut byte = 0u8;
                    syscall(&k, libc::SYS_read, &[fds[0], &raw mut byte as u64, 1])
                })
            })
            .collect();
        nap(&k, 50);
        k.halt();
        for waiting in waiting {
            let gone = -i64::from(libc::ESHUTDOWN);
            assert_eq!(waiting.join().expect("returns"), gone);
        }
    });
}

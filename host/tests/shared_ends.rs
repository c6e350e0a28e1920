//! Promises of a kernel that several processes share, when one of them ends: by itself,
//! killed, inside or outside, the first or another; and when the kernel does.

mod common;
#[path = "common/forks.rs"]
mod forks;

use common::{nap, read_file, syscall};
use forks::{
    alone, assert_ended, assert_exited, boot, boot_cpus, close, fork, get, host_wait, kill,
    ping_pong, pipe, put, wait,
};
use std::time::Duration;
use tane_host::Kernel;

#[test]
fn wait_tells_with_what_a_child_exited() {
    let _alone = alone();
    let k = &boot();
    for code in [0, 7, 255] {
        let child = fork(k, || forks::exit(code));
        assert_ended(k, child, code << 8);
    }
    // Without having made a call, and having called exit_group(2) itself.
    let child = fork(k, || {
        syscall(k, libc::SYS_exit_group, &[3]);
    });
    let pid = child.linux;
    assert_eq!(wait(k, pid), (i64::from(pid), 3 << 8));
    host_wait(child.host);
}

#[test]
fn a_child_that_was_killed_is_told_to_have_been() {
    let _alone = alone();
    let k = &boot();
    let [rx, tx] = pipe(k);
    // Outside of the kernel; and in a call, which waits for what never comes.
    for waits in [false, true] {
        let child = fork(k, || {
            assert_eq!(put(k, tx, 1), 8);
            let [never, _kept] = pipe(k);
            match waits {
                true => drop(get(k, never)),
                false => loop {
                    std::thread::sleep(Duration::from_secs(60));
                },
            }
        });
        assert_eq!(get(k, rx), Some(1));
        std::thread::sleep(Duration::from_millis(20));
        kill(child.host);
        assert_ended(k, child, libc::SIGKILL);
    }
    ping_pong(k, 10);
}

/// A child that is inside nearly all the time is killed. Whether that ended the kernel.
fn dies_of_a_kill_inside() -> bool {
    const LEN: usize = 64 << 20;
    let k = &boot();
    let zero = c"/zero".as_ptr() as u64;
    let device = 1 << 8 | 5;
    let mode = u64::from(libc::S_IFCHR) | 0o600;
    assert_eq!(syscall(k, libc::SYS_mknod, &[zero, mode, device]), 0);
    let [rx, tx] = pipe(k);
    let child = fork(k, || {
        let fd = syscall(k, libc::SYS_open, &[zero, 0, 0]) as u64;
        let mut buffer = vec![1u8; LEN];
        let read = [fd, buffer.as_mut_ptr() as u64, LEN as u64];
        assert!(syscall(k, libc::SYS_read, &read) > 0);
        assert_eq!(put(k, tx, 1), 8);
        while syscall(k, libc::SYS_read, &read) > 0 {}
        forks::exit(3);
    });
    assert_eq!(get(k, rx), Some(1));
    std::thread::sleep(Duration::from_millis(200));
    kill(child.host);
    assert_eq!(host_wait(child.host), libc::SIGKILL);
    if wait(k, child.linux) != (-i64::from(libc::ESHUTDOWN), -1) {
        return false;
    }
    let answer = syscall(k, libc::SYS_getpid, &[]);
    assert_eq!(answer, -i64::from(libc::ESHUTDOWN));
    let words = k.last_words();
    assert!(words.contains("was killed inside the kernel"), "{words}");
    true
}

/// Calls that need its memory when they go on.
fn sleeps(k: &Kernel) {
    loop {
        let mut left = libc::timespec {
            tv_sec: 0,
            tv_nsec: 200_000,
        };
        let time = &raw mut left as u64;
        syscall(k, libc::SYS_nanosleep, &[time, time]);
        let [rx, tx] = pipe(k);
        put(k, tx, 1);
        get(k, rx);
        close(k, rx);
        close(k, tx);
    }
}

#[test]
fn processes_that_are_killed_at_once_end_all() {
    let _alone = alone();
    // Where one was killed inside the kernel nothing can be said of the others.
    for cpus in [1, 2].repeat(6) {
        forks::in_process(|| {
            let k = &boot_cpus(cpus);
            for _ in 0..10 {
                let [rx, tx] = pipe(k);
                let children = [(); 4].map(|()| {
                    fork(k, || {
                        assert_eq!(put(k, tx, 1), 8);
                        std::thread::scope(|scope| {
                            (0..2).for_each(|_| drop(scope.spawn(|| sleeps(k))));
                        });
                    })
                });
                children.iter().for_each(|_| assert!(get(k, rx).is_some()));
                nap(k, 1);
                children.iter().for_each(|child| kill(child.host));
                for child in children {
                    assert_eq!(host_wait(child.host), libc::SIGKILL);
                    let told = wait(k, child.linux);
                    if told.0 == -i64::from(libc::ESHUTDOWN) {
                        return;
                    }
                    assert_eq!(told, (i64::from(child.linux), libc::SIGKILL));
                }
                close(k, rx);
                close(k, tx);
            }
        });
    }
}

#[test]
fn a_process_killed_inside_the_kernel_ends_it_for_all() {
    let _alone = alone();
    // Between two calls it would end like any other.
    assert!((0..5).any(|_| dies_of_a_kill_inside()));
}

#[test]
fn what_a_process_had_open_is_closed_when_it_ends() {
    let _alone = alone();
    let k = &boot();
    let [rx, tx] = pipe(k);
    let child = fork(k, || {
        nap(k, 20);
    });
    close(k, tx);
    // The child has the other end as long as it lives.
    assert_eq!(get(k, rx), None);
    assert_exited(k, child);
}

#[test]
fn a_kernel_that_is_halted_is_halted_for_all() {
    let _alone = alone();
    let k = &boot();
    let [rx, tx] = pipe(k);
    let child = fork(k, || {
        assert_eq!(put(k, tx, 1), 8);
        let mut number = 0u64;
        let at = &raw mut number as u64;
        let [never, _kept] = pipe(k);
        let answer = syscall(k, libc::SYS_read, &[never, at, 8]);
        assert_eq!(answer, -i64::from(libc::ESHUTDOWN));
        assert!(!k.is_alive());
    });
    assert_eq!(get(k, rx), Some(1));
    nap(k, 20);
    k.halt();
    assert_eq!(host_wait(child.host), 0);
}

#[test]
fn a_child_can_halt_the_kernel_of_all() {
    let _alone = alone();
    let k = &boot();
    let child = fork(k, || {
        nap(k, 20);
        k.halt();
        assert!(!k.is_alive());
    });
    let [never, _kept] = pipe(k);
    let mut number = 0u64;
    let at = &raw mut number as u64;
    let answer = syscall(k, libc::SYS_read, &[never, at, 8]);
    assert_eq!(answer, -i64::from(libc::ESHUTDOWN));
    assert_eq!(host_wait(child.host), 0);
    assert_eq!(k.last_words(), "halted");
}

#[test]
fn children_of_a_process_that_has_ended_are_told() {
    let _alone = alone();
    // The one that boots ends first; what is left tells by an exit code.
    let mut host = [0i32; 2];
    // SAFETY: writes two numbers of ours.
    assert_eq!(unsafe { libc::pipe(host.as_mut_ptr()) }, 0);
    // SAFETY: a plain fork(2).
    let first = unsafe { libc::fork() };
    if first == 0 {
        forks::guarded(|| {
            let k = &boot();
            let child = fork(k, || {
                let [never, _kept] = pipe(k);
                let mut number = 0u64;
                let at = &raw mut number as u64;
                let answer = syscall(k, libc::SYS_read, &[never, at, 8]);
                assert_eq!(answer, -i64::from(libc::ESHUTDOWN));
                let words = k.last_words();
                assert!(words.contains("has ended"), "{words}");
                // SAFETY: a byte of ours.
                unsafe { libc::write(host[1], c"!".as_ptr().cast(), 1) };
            });
            let _ = child;
            std::thread::sleep(Duration::from_millis(50));
            // SAFETY: as kill -9 would, in the middle of everything.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        });
    }
    // SAFETY: ours.
    unsafe { libc::close(host[1]) };
    assert_eq!(host_wait(first), libc::SIGKILL);
    let mut byte = 0u8;
    // SAFETY: a byte of ours.
    let n = unsafe { libc::read(host[0], (&raw mut byte).cast(), 1) };
    assert_eq!((n, byte), (1, b'!'));
}

fn linux_processes(k: &Kernel) -> usize {
    let text = read_file(k, c"/proc/loadavg");
    let text = String::from_utf8(text).unwrap();
    let tasks = text.split_whitespace().nth(3).unwrap();
    tasks.split_once('/').unwrap().1.parse().unwrap()
}

fn host_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn two_hundred_forks_leave_nothing() {
    let _alone = alone();
    let k = &boot();
    let once = || {
        let child = fork(k, || assert!(syscall(k, libc::SYS_getpid, &[]) > 1));
        assert_exited(k, child);
    };
    once();
    let before = linux_processes(k);
    let files = host_descriptors();
    for _ in 0..200 {
        once();
    }
    // Tasks are freed when RCU says so.
    nap(k, 200);
    let now = linux_processes(k);
    assert!(now <= before + 4, "{before} tasks before, {now} now");
    // Other tests of this program open some at the same time.
    assert!(host_descriptors() < files + 100);
}

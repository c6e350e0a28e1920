//! Promises about fork(2) itself of a process that has shared kernels: when it is called,
//! who refuses it, and what is left of it. Each in a process of its own, so that what hangs
//! ends with an alarm.

mod common;
#[path = "common/forks.rs"]
mod forks;

use common::{boot_with, syscall};
use forks::{alone, assert_ended, boot, fork, get, host_wait, in_process, kill, pipe, put, wait};
use std::io::Error;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

fn errno() -> i32 {
    Error::last_os_error().raw_os_error().unwrap()
}

/// fork(2), and how the child ended.
fn fork_and_wait(then: impl FnOnce()) -> i32 {
    // SAFETY: a plain fork(2).
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", Error::last_os_error()),
        0 => forks::guarded(then),
        host => host_wait(host),
    }
}

#[test]
fn processes_fork_while_kernels_come_and_go() {
    let _alone = alone();
    in_process(|| {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let makers = [true, false].map(|shared| {
                scope.spawn(move || {
                    for _ in 0..40 {
                        let k = boot_with(|builder| builder.shared = shared);
                        assert_eq!(syscall(&k, libc::SYS_getpid, &[]), 1);
                    }
                })
            });
            let forks = scope.spawn(|| {
                for n in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let status = fork_and_wait(|| {
                        // As its parent: forks, and now and then a kernel of its own.
                        assert_eq!(fork_and_wait(|| forks::exit(0)), 0);
                        if n % 8 == 0 {
                            assert_eq!(syscall(&boot(), libc::SYS_getpid, &[]), 1);
                        }
                    });
                    assert_eq!(status, 0);
                }
            });
            let makers = makers.map(|maker| maker.join());
            done.store(true, Ordering::Relaxed);
            forks.join().unwrap();
            assert!(makers.iter().all(Result::is_ok));
        });
    });
}

#[test]
fn a_process_forks_at_the_moment_when_its_first_kernel_is_made() {
    let _alone = alone();
    for round in 0..100 {
        in_process(|| {
            let both = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                let first = scope.spawn(|| {
                    both.wait();
                    assert_eq!(syscall(&boot(), libc::SYS_getpid, &[]), 1);
                });
                both.wait();
                // Sooner or later.
                (0..round * 20).for_each(|_| std::hint::spin_loop());
                let status = fork_and_wait(|| {
                    assert_eq!(syscall(&boot(), libc::SYS_getpid, &[]), 1);
                });
                assert_eq!(status, 0);
                first.join().unwrap();
            });
        });
    }
}

/// Linux 6.15 tells how a process ended that its parent has waited for.
fn host_tells_the_end() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0u32);
    (next(), next()) >= (6, 15)
}

#[test]
fn a_status_is_not_lost_because_the_parent_has_waited() {
    let _alone = alone();
    in_process(|| {
        let k = &boot();
        for _ in 0..50 {
            let child = fork(k, || forks::exit(7));
            assert_eq!(host_wait(child.host), 7 << 8);
            let (pid, status) = wait(k, child.linux);
            assert_eq!(pid, i64::from(child.linux));
            let lost = status == 0 && !host_tells_the_end();
            assert!(status == 7 << 8 || lost, "{status:x}");
        }
    });
}

/// As many more descriptors as that may be opened.
fn limit_files(to: u64) -> u64 {
    // SAFETY: a structure of ours.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let before = std::mem::replace(&mut limit.rlim_cur, to);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        before
    }
}

#[test]
fn a_child_goes_on_though_the_first_process_has_no_descriptor_left() {
    let _alone = alone();
    in_process(|| {
        let k = &boot();
        let [to_child, to_parent] = [pipe(k), pipe(k)];
        let before = limit_files(0);
        let child = fork(k, || {
            assert_eq!(put(k, to_parent[1], 1), 8);
            assert_eq!(get(k, to_child[0]), Some(2));
            assert_eq!(put(k, to_parent[1], 3), 8);
            forks::exit(7);
        });
        assert_eq!(get(k, to_parent[0]), Some(1));
        // For who would take it for dead.
        common::nap(k, 100);
        assert_eq!(put(k, to_child[1], 2), 8);
        assert_eq!(get(k, to_parent[0]), Some(3));
        limit_files(before);
        assert_ended(k, child, 7 << 8);
    });
}

/// This thread's forks are refused from now on.
fn refuse_forks() {
    const LOAD_NR: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(LOAD_NR, 0, 0, 0),
        step(IS, 1, 0, libc::SYS_clone as u32),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
        step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EAGAIN as u32),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: a program of ours, for this thread.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program),
            0
        );
    }
}

#[test]
fn a_fork_that_the_host_refuses_leaves_nothing_in_linux() {
    let _alone = alone();
    in_process(|| {
        let k = &boot();
        assert_eq!(fork_and_wait(|| ()), 0);
        assert_eq!(wait(k, k.forked().unwrap()).1, 0);
        refuse_forks();
        for _ in 0..3 {
            // SAFETY: refused.
            assert_eq!(unsafe { libc::fork() }, -1);
            assert_eq!(errno(), libc::EAGAIN);
            assert!(k.forked().is_err());
            assert_eq!(wait(k, -1).0, -i64::from(libc::ECHILD));
        }
    });
}

#[test]
fn a_fork_leaves_errno_as_it_was() {
    let _alone = alone();
    in_process(|| {
        let k = &boot();
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = 77 };
        // SAFETY: a plain fork(2).
        let host = unsafe { libc::fork() };
        let after = errno();
        if host == 0 {
            forks::exit(i32::from(after != 77));
        }
        assert_eq!(after, 77);
        assert_eq!(host_wait(host), 0);
        assert_eq!(wait(k, k.forked().unwrap()).1, 0);
    });
}

#[test]
fn a_child_in_a_pid_namespace_of_its_own_is_no_process_of_the_kernels() {
    let _alone = alone();
    in_process(|| {
        // SAFETY: no memory involved.
        unsafe { libc::unshare(libc::CLONE_NEWUSER) };
        let k = &boot();
        // SAFETY: as above.
        if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
            eprintln!("skipped: no pid namespaces: {}", Error::last_os_error());
            return;
        }
        // The first process could not say which one it is.
        let child = fork(k, || {
            let answer = syscall(k, libc::SYS_getpid, &[]);
            assert_eq!(answer, -i64::from(libc::ENOTSUP));
        });
        assert_eq!(host_wait(child.host), 0);
        assert_eq!(wait(k, child.linux).0, i64::from(child.linux));
    });
}

/// Reads from /dev/zero, which keeps who does it inside nearly all the time.
fn stay_inside(k: &tane_host::Kernel, started: &AtomicBool) -> ! {
    const LEN: usize = 32 << 20;
    let zero = c"/zero".as_ptr() as u64;
    let mode = u64::from(libc::S_IFCHR) | 0o600;
    syscall(k, libc::SYS_mknod, &[zero, mode, 1 << 8 | 5]);
    let fd = syscall(k, libc::SYS_open, &[zero, 0, 0]) as u64;
    let mut buffer = vec![1u8; LEN];
    let read = [fd, buffer.as_mut_ptr() as u64, LEN as u64];
    loop {
        let done = syscall(k, libc::SYS_read, &read);
        started.store(true, Ordering::Relaxed);
        if done < 0 {
            // The kernel has ended.
            std::thread::park();
        }
    }
}

fn flag() -> &'static AtomicBool {
    Box::leak(Box::default())
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Relaxed) {
        std::thread::yield_now();
    }
}

#[test]
fn a_child_halts_a_kernel_whose_first_process_was_killed_inside() {
    let _alone = alone();
    for _ in 0..4 {
        let mut ends = [0i32; 2];
        // SAFETY: writes two numbers of ours.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: a plain fork(2).
        let first = unsafe { libc::fork() };
        if first == 0 {
            forks::guarded(|| {
                let k = &boot();
                let [rx, tx] = pipe(k);
                fork(k, || {
                    // SAFETY: no memory involved.
                    let parent = unsafe { libc::getppid() };
                    assert_eq!(get(k, rx), Some(1));
                    // Who has just come out is alone outside: the other one is to be back.
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    kill(parent);
                    k.halt();
                    // SAFETY: a byte of ours.
                    unsafe { libc::write(ends[1], c"!".as_ptr().cast(), 1) };
                });
                std::thread::scope(|scope| {
                    let started = flag();
                    scope.spawn(|| stay_inside(k, started));
                    wait_for(started);
                    put(k, tx, 1);
                });
            });
        }
        // SAFETY: ours.
        unsafe { libc::close(ends[1]) };
        assert_eq!(host_wait(first), libc::SIGKILL);
        let mut byte = 0u8;
        // SAFETY: a byte of ours.
        let n = unsafe { libc::read(ends[0], (&raw mut byte).cast(), 1) };
        assert_eq!((n, byte), (1, b'!'));
        // SAFETY: ours.
        unsafe { libc::close(ends[0]) };
    }
}

#[test]
fn a_thread_that_an_exec_kills_inside_ends_the_kernel() {
    let _alone = alone();
    // Between two calls it would leave the kernel alone.
    let ended = (0..5).any(|_| {
        let status = fork_and_wait(|| {
            let k = &boot();
            let child = fork(k, || {
                std::thread::scope(|scope| {
                    let started = flag();
                    scope.spawn(|| stay_inside(k, started));
                    wait_for(started);
                    let arguments = [c"sleep".as_ptr(), c"1000".as_ptr(), std::ptr::null()];
                    // SAFETY: strings of ours, and the end.
                    unsafe { libc::execv(c"/bin/sleep".as_ptr(), arguments.as_ptr()) };
                });
            });
            let [never, _kept] = pipe(k);
            let ended = loop {
                if !k.is_alive() {
                    break true;
                }
                let name = std::fs::read(format!("/proc/{}/comm", child.host)).unwrap();
                if name.starts_with(b"sleep") {
                    // Others go on, or are told.
                    let mut poll = libc::pollfd {
                        fd: never as i32,
                        events: libc::POLLIN,
                        revents: 0,
                    };
                    break syscall(k, libc::SYS_poll, &[&raw mut poll as u64, 1, 100]) < 0;
                }
                std::thread::yield_now();
            };
            kill(child.host);
            host_wait(child.host);
            if ended {
                let words = k.last_words();
                assert!(words.contains("killed inside the kernel"), "{words}");
            }
            forks::exit(i32::from(ended) * 3);
        });
        assert!(status == 0 || status == 3 << 8, "{status:x}");
        status != 0
    });
    assert!(ended);
}

static IN_HANDLER: AtomicI32 = AtomicI32::new(0);

extern "C" fn forks_in_a_handler(_: i32) {
    // SAFETY: a plain fork(2), whose child ends at once.
    let host = unsafe { libc::fork() };
    if host == 0 {
        forks::exit(5);
    }
    IN_HANDLER.store(host, Ordering::Relaxed);
}

extern "C" fn does_nothing(_: i32) {}

#[test]
fn a_handler_on_a_signal_stack_can_fork() {
    let _alone = alone();
    in_process(|| {
        let k = &boot();
        // Rust's own has room for a handler, not for a fork.
        let mut stack = vec![0u8; 512 << 10];
        let stack = libc::stack_t {
            ss_sp: stack.as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: stack.len(),
        };
        // SAFETY: it outlives the handlers.
        let set = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        for (signal, handler) in [
            (libc::SIGUSR1, forks_in_a_handler as *const () as usize),
            (libc::SIGUSR2, does_nothing as *const () as usize),
        ] {
            // SAFETY: handlers of ours.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler;
                action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
                assert_eq!(
                    libc::sigaction(signal, &raw const action, std::ptr::null_mut()),
                    0
                );
            }
        }
        let done = &AtomicBool::new(false);
        // SAFETY: no memory involved.
        let me = unsafe { libc::pthread_self() };
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: a thread that outlives this one.
                    unsafe { libc::pthread_kill(me, libc::SIGUSR2) };
                    std::thread::yield_now();
                }
            });
            for _ in 0..200 {
                // SAFETY: to this thread.
                unsafe { libc::raise(libc::SIGUSR1) };
                let host = IN_HANDLER.load(Ordering::Relaxed);
                assert!(host > 0);
                assert_eq!(wait(k, k.forked().unwrap()).1, 5 << 8);
                assert_eq!(host_wait(host), 5 << 8);
            }
            done.store(true, Ordering::Relaxed);
        });
    });
}

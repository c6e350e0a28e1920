//! Promises about children that end with who started them.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use tane_jail::{fork_tied, Tied};
use tane_test_support::PATIENCE;

/// A child of this test, which does this and ends with that code.
fn process(work: impl FnOnce() -> i32) -> i32 {
    // SAFETY: it does nothing that another thread could be in the way of, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            // SAFETY: ends the process.
            unsafe { libc::_exit(code.unwrap_or(101)) }
        }
        pid => pid,
    }
}

/// How this child ended. One that does not end is killed, and the test fails.
fn status(pid: i32) -> i32 {
    let (mut status, end) = (0, Instant::now() + PATIENCE);
    loop {
        // SAFETY: a child of ours; a live int.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            0 => {
                // SAFETY: no memory involved. It was not waited for: it has its number.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                panic!("not after {PATIENCE:?}: {pid} ends");
            }
            waited => {
                assert_eq!(waited, pid);
                return status;
            }
        }
    }
}

/// Whether there is something to be read, or an end, while a test may take.
fn comes(from: &impl AsRawFd) -> bool {
    let mut is_there = libc::pollfd {
        fd: from.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: a structure of ours.
    unsafe { libc::poll(&raw mut is_there, 1, PATIENCE.as_millis() as i32) == 1 }
}

fn sleep() -> ! {
    loop {
        // SAFETY: no memory involved.
        unsafe { libc::pause() };
    }
}

/// A child that does nothing, and that no signal tells of the end of this process: in a jail
/// none does.
fn tied() -> Tied {
    let (mut begun, begin) = io::pipe().expect("a pipe");
    // SAFETY: this process has one thread.
    match unsafe { fork_tied() }.expect("a child") {
        None => {
            // SAFETY: no memory involved.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
            (&begin).write_all(&[0]).expect("room");
            sleep()
        }
        Some(tied) => {
            // Of a child that has died there is an end.
            drop(begin);
            begun.read_exact(&mut [0]).expect("a byte");
            tied
        }
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("a listing").count()
}

#[test]
fn one_that_is_dropped_is_killed_and_leaves_nothing_open() {
    let test = process(|| {
        let before = open_files();
        for _ in 0..3 {
            let child = tied();
            let pid = child.pid();
            assert!(open_files() > before);
            drop(child);
            assert_eq!(libc::WTERMSIG(status(pid)), libc::SIGKILL);
        }
        assert_eq!(open_files(), before);
        7
    });
    assert_eq!(libc::WEXITSTATUS(status(test)), 7);
}

#[test]
fn one_has_nothing_open_by_which_another_ends() {
    let test = process(|| {
        let before = open_files();
        let first = tied();
        // SAFETY: this process has one thread.
        let second = match unsafe { fork_tied() }.expect("a child") {
            // Its own end alone; and what is dropped here is not its to close.
            None => {
                let own = open_files();
                drop(first);
                let is_all = own == before + 1 && open_files() == own;
                // SAFETY: ends the process.
                unsafe { libc::_exit(if is_all { 7 } else { 1 }) }
            }
            Some(tied) => tied,
        };
        assert_eq!(libc::WEXITSTATUS(status(second.pid())), 7);
        // SAFETY: no memory involved. It is there, and was not waited for.
        assert_eq!(unsafe { libc::kill(first.pid(), 0) }, 0);
        7
    });
    assert_eq!(libc::WEXITSTATUS(status(test)), 7);
}

#[test]
fn it_ends_with_who_started_it_though_a_later_child_of_that_one_lives_on() {
    let (mut ends, lives) = io::pipe().expect("a pipe");
    let (mut told, tell) = io::pipe().expect("a pipe");
    let parent = process(|| {
        tied().for_good();
        // SAFETY: a descriptor of this process, that is not used any more.
        unsafe { libc::close(lives.as_raw_fd()) };
        let later = process(|| sleep());
        (&tell).write_all(&later.to_le_bytes()).expect("room");
        0
    });
    assert_eq!(status(parent), 0);
    let mut later = [0; 4];
    told.read_exact(&mut later).expect("its number");
    drop(lives);
    let has_ended = comes(&ends);
    let later = i32::from_le_bytes(later);
    // SAFETY: no memory involved. Nobody has waited for it: it is no child of ours.
    assert_eq!(unsafe { libc::kill(later, libc::SIGKILL) }, 0);
    // The first child alone has the other end.
    assert!(has_ended, "not after {PATIENCE:?}: the first child ends");
    assert_eq!(ends.read(&mut [0]).expect("an end"), 0);
}

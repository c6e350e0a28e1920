//! Futexes, shared ones: the words lie in memory that a forked child shares.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleep while `word` is `expected`, at most `timeout`. May return early.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let spec = timeout.map(|t| libc::timespec {
        tv_sec: t.as_secs() as libc::time_t,
        tv_nsec: t.subsec_nanos() as libc::c_long,
    });
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel only reads the word and the time.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            expected,
            spec,
        );
    }
}

/// Wake everyone who sleeps on `word`.
pub fn wake(word: &AtomicU32) {
    // SAFETY: the kernel uses the address as a name only.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

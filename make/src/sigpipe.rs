//! A program that reads from here and ends early, without SIGPIPE: in a process that is not
//! Rust's it ends the process.

use std::mem::MaybeUninit;

/// What writes to a pipe that nobody reads any more gets EPIPE in `work`, by this thread
/// and by those that it starts.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    let _blocked = Blocked::new();
    work()
}

struct Blocked {
    before: libc::sigset_t,
    /// SIGPIPE alone.
    set: libc::sigset_t,
}

impl Blocked {
    fn new() -> Blocked {
        let (mut set, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both are filled by these calls, which cannot fail.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            Blocked {
                before: before.assume_init(),
                set: set.assume_init(),
            }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the sets are this structure's; a signal that is waited for no longer is
        // taken, and told nobody.
        unsafe {
            // One that came to who blocks it is his.
            if libc::sigismember(&raw const self.before, libc::SIGPIPE) == 0 {
                libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), &raw const now);
            }
            let set = libc::SIG_SETMASK;
            libc::pthread_sigmask(set, &raw const self.before, std::ptr::null_mut());
        }
    }
}

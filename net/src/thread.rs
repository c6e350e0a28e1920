//! Threads that serve a device.

use std::thread::JoinHandle;

/// Start a thread that takes none of the program's signals: those are for the
/// program's threads. Ours has a mask of everything but its own faults.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let before = swap_signal_mask(None);
    let thread = std::thread::Builder::new()
        .name(name.into())
        .stack_size(256 << 10)
        .spawn(work);
    if before.is_some() {
        swap_signal_mask(before);
    }
    thread
}

/// Set this mask, or that of such a thread; returns the one before.
fn swap_signal_mask(mask: Option<libc::sigset_t>) -> Option<libc::sigset_t> {
    if cfg!(miri) {
        return None;
    }
    // SAFETY: the sets are ours.
    unsafe {
        let mut set = mask.unwrap_or(std::mem::zeroed());
        if mask.is_none() {
            libc::sigfillset(&raw mut set);
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE] {
                libc::sigdelset(&raw mut set, signal);
            }
        }
        let mut before = std::mem::zeroed();
        let failed = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, &raw mut before);
        (failed == 0).then_some(before)
    }
}

//! Ctrl-C ends the race at the next turn, so that everything is cleaned up, files
//! in memory and mounts, and what was measured until then is told.

use std::sync::atomic::{AtomicI32, Ordering};

/// Why something was not measured.
pub const WHY: &str = "interrupted";

static ASKED: AtomicI32 = AtomicI32::new(0);

extern "C" fn ask(signal: libc::c_int) {
    ASKED.store(signal, Ordering::Relaxed);
}

pub fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let handler: extern "C" fn(libc::c_int) = ask;
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed) != 0
}

/// What a shell says of a program that such a signal ended.
pub fn status() -> u8 {
    128 + ASKED.load(Ordering::Relaxed) as u8
}

/// Why something failed. Ctrl-C goes to our children too, and what they say of
/// it, or do not, is no fault of theirs.
pub fn or(error: &str) -> &str {
    if asked() {
        WHY
    } else {
        error
    }
}

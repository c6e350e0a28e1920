//! The terminal's echo: off while a passphrase is typed, and on again however that ends.

use std::sync::{Mutex, MutexGuard};

/// What the terminal was like before, while it is not.
static BEFORE: Mutex<Option<libc::termios>> = Mutex::new(None);

fn before() -> MutexGuard<'static, Option<libc::termios>> {
    BEFORE.lock().unwrap_or_else(|e| e.into_inner())
}

/// Nothing that is typed meanwhile is shown, if standard input is a terminal.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    struct Again;
    impl Drop for Again {
        fn drop(&mut self) {
            restore();
        }
    }
    let _again = Again;
    // SAFETY: the structure is plain data, and the host's to fill.
    unsafe {
        let mut now: libc::termios = std::mem::zeroed();
        if libc::tcgetattr(libc::STDIN_FILENO, &raw mut now) == 0 {
            *before() = Some(now);
            now.c_lflag &= !libc::ECHO;
            libc::tcsetattr(libc::STDIN_FILENO, libc::TCSAFLUSH, &raw const now);
        }
    }
    work()
}

/// The terminal is as it was. Any thread may do it, above all one that ends the process.
pub fn restore() {
    if let Some(before) = before().take() {
        // At once: output that somebody holds back (Ctrl-S) is not waited for.
        // SAFETY: as it was read.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const before) };
    }
}

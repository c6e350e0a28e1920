//! The host's terminal, while each key is the program's.

/// What it was like before, while it is raw. Dropped, it is so again.
#[derive(Default)]
pub struct Raw(Option<libc::termios>);

impl Raw {
    /// What is typed goes on as it is, and is neither shown nor a signal. What has been
    /// typed already stays.
    pub fn enter(&mut self) {
        // SAFETY: the structures are plain data, and the host's to fill.
        unsafe {
            let mut now: libc::termios = std::mem::zeroed();
            if self.0.is_some() || libc::tcgetattr(libc::STDIN_FILENO, &raw mut now) != 0 {
                return;
            }
            self.0 = Some(now);
            libc::cfmakeraw(&raw mut now);
            libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const now);
        }
    }

    /// As it was: at once, whether or not somebody holds output back. Whoever has the
    /// terminal in the foreground meanwhile keeps it as it is.
    pub fn restore(&mut self) {
        let Some(before) = self.0.take() else { return };
        // SAFETY: as it was read.
        unsafe {
            let foreground = libc::tcgetpgrp(libc::STDIN_FILENO);
            if foreground < 0 || foreground == libc::getpgrp() {
                libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const before);
            }
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.restore();
    }
}

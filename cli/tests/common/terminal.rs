//! A terminal of a test's own, at which somebody may sit.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

/// Where one types and reads.
pub struct Terminal {
    seat: File,
    name: String,
}

impl Terminal {
    pub fn new() -> Terminal {
        // SAFETY: a fresh descriptor; the name is written into room of ours.
        unsafe {
            let fd = libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC);
            assert!(fd >= 0, "a terminal");
            assert_eq!((libc::grantpt(fd), libc::unlockpt(fd)), (0, 0));
            let mut name = [0u8; 64];
            assert_eq!(libc::ptsname_r(fd, name.as_mut_ptr().cast(), 64), 0);
            let name = std::ffi::CStr::from_bytes_until_nul(&name).expect("a name");
            Terminal {
                seat: File::from_raw_fd(fd),
                name: name.to_str().expect("ASCII").to_owned(),
            }
        }
    }

    /// Standard input, output and error, as shells give them: open once, for both ways.
    pub fn give(&self, command: &mut Command) {
        let mut options = File::options();
        options.read(true).write(true).custom_flags(libc::O_NOCTTY);
        let file = options.open(&self.name).expect("its other end");
        let copy = || Stdio::from(file.try_clone().expect("a descriptor"));
        command.stdin(copy()).stdout(copy()).stderr(copy());
    }

    /// Whether anybody else has it open.
    pub fn is_used(&self) -> bool {
        let mut seat = libc::pollfd {
            fd: self.seat.as_raw_fd(),
            events: 0,
            revents: 0,
        };
        // SAFETY: a structure of ours.
        unsafe { libc::poll(&raw mut seat, 1, 0) };
        seat.revents & libc::POLLHUP == 0
    }

    /// Types a line.
    pub fn types(&mut self, line: &str) {
        writeln!(self.seat, "{line}").expect("somebody types");
    }

    /// All that comes, until it has this text in it.
    pub fn shows(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        loop {
            let mut piece = [0; 1024];
            let n = self.seat.read(&mut piece).unwrap_or(0);
            shown.extend_from_slice(&piece[..n]);
            let all = String::from_utf8_lossy(&shown);
            if all.contains(text) {
                return all.into_owned();
            }
            assert!(n > 0, "it ended: {all}");
        }
    }

    /// Whether what is typed is shown.
    pub fn echoes(&self) -> bool {
        // SAFETY: the structure is the host's to fill.
        unsafe {
            let mut now: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.seat.as_raw_fd(), &raw mut now), 0);
            now.c_lflag & libc::ECHO != 0
        }
    }
}

//! Serving in the background.
//!
//! A kernel does not survive fork(), so that the command starts itself again and
//! waits until that says it is mounted. What goes wrong before that is said and
//! answered by exit code as ever; what goes wrong later is in the system's log.

use crate::failure::{Failure, Result, SOME_FAILED};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Runs this command once more, until it is mounted or has failed.
pub fn start() -> Result<u8> {
    let fail = |e: io::Error| Failure::new(SOME_FAILED, format!("the background: {e}"));
    let (mut reader, writer) = UnixStream::pair().map_err(fail)?;
    let fd = writer.as_raw_fd();
    let mut command = Command::new("/proc/self/exe");
    let mut args = std::env::args_os();
    command.arg0(args.next().unwrap_or_else(|| "tane".into()));
    command.args(args).arg(format!("--ready={fd}"));
    // SAFETY: fcntl may be called there, on a descriptor that stays open till then.
    unsafe {
        command.pre_exec(move || match libc::fcntl(fd, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let mut child = command.spawn().map_err(fail)?;
    drop(writer);
    let mut byte = [0];
    if reader.read(&mut byte).map_err(fail)? == 1 {
        return Ok(0);
    }
    let status = child.wait().map_err(fail)?;
    Ok(status.code().map_or(SOME_FAILED, |code| code as u8))
}

/// Who waits to hear that it is mounted.
pub struct Ready(File);

impl Ready {
    /// `fd` is what `start` gave on the command line.
    pub fn new(fd: i32) -> Ready {
        // SAFETY: inherited for this, and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a descriptor of ours. Whoever is started from here has none.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        Ready(fd.into())
    }

    /// It is mounted: from here on this is no child of a terminal.
    pub fn say(mut self) {
        let null = File::options().read(true).write(true).open("/dev/null");
        // SAFETY: calls on descriptors that are open; they change no memory.
        unsafe {
            libc::setsid();
            libc::chdir(c"/".as_ptr());
            if let Ok(null) = null {
                for standard in 0..3 {
                    libc::dup2(null.as_raw_fd(), standard);
                }
            }
        }
        // Who waited may be gone, which is their affair.
        let _ = self.0.write_all(&[1]);
    }
}

/// Tells the system's log of an error.
pub fn log(text: &str) {
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // SAFETY: C strings; the format takes one.
    unsafe {
        libc::openlog(c"tane".as_ptr(), libc::LOG_PID, libc::LOG_DAEMON);
        libc::syslog(libc::LOG_ERR, c"%s".as_ptr(), text.as_ptr());
    }
}

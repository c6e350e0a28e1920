//! Servers that others have written, as processes of a test.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};

/// One of them. It ends when this is dropped, and with the thread that started it.
pub struct Process(Child);

impl Process {
    pub fn spawn(mut server: Command) -> Process {
        // SAFETY: one system call, without memory.
        unsafe {
            server.pre_exec(
                || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                },
            );
        }
        Process(server.spawn().expect("a server"))
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Whether somebody does there, without connecting: who serves one client would serve that.
pub fn listens(socket: &Path) -> bool {
    /// linux/net.h: __SO_ACCEPTON
    const LISTENS: &str = "00010000";
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("the host's sockets");
    let path = socket.to_str().expect("its name");
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.nth(3) == Some(LISTENS) && words.nth(3) == Some(path)
    })
}

//! A program that runs, and how it ended.

use crate::streams::Pumps;
use std::io;
use tane::Kernel;

/// A program that was started. Dropping it neither ends it nor waits for it.
pub struct Child {
    pub(crate) kernel: Kernel,
    pub(crate) pid: i32,
    pub(crate) pumps: Pumps,
}

/// Sends signals to a program.
#[derive(Clone)]
pub struct Handle {
    kernel: Kernel,
    pid: i32,
}

impl Handle {
    /// As kill(2); `ESRCH` when it has ended and somebody has waited for it.
    pub fn kill(&self, signal: i32) -> io::Result<()> {
        let args = [self.pid as u64, signal as u64, 0, 0, 0, 0];
        // SAFETY: no pointers.
        unsafe { self.kernel.try_syscall(libc::SYS_kill, args).map(drop) }
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// By exit(2), with this code.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

impl Ending {
    /// As a shell has it in `$?`: a signal is 128 and its number.
    pub fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code.into(),
            Self::Killed(signal) => 128 + signal,
        }
    }
}

impl Child {
    /// Its process id inside the kernel.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What sends it signals, from any thread, also while somebody waits for its end.
    pub fn handle(&self) -> Handle {
        Handle {
            kernel: self.kernel.clone(),
            pid: self.pid,
        }
    }

    /// Send it a signal, as kill(2).
    pub fn kill(&self, signal: i32) -> io::Result<()> {
        self.handle().kill(signal)
    }

    /// Until it has ended and its output has arrived.
    ///
    /// An error of the output, or `ESHUTDOWN` if the kernel ended before the program
    /// did; [`Kernel::last_words`] says why.
    pub fn wait(self) -> io::Result<Ending> {
        let ending = wait(&self.kernel, self.pid)?;
        self.pumps.finish()?;
        Ok(ending)
    }
}

/// Wait for a child of process 1.
pub fn wait(kernel: &Kernel, pid: i32) -> io::Result<Ending> {
    let mut status = 0i32;
    loop {
        // By clone() with SIGCHLD, and of any thread of process 1.
        let args = [pid as u64, &raw mut status as u64, 0, 0, 0, 0];
        // SAFETY: the call fills an integer of ours.
        match unsafe { kernel.try_syscall(libc::SYS_wait4, args) } {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    Ok(match libc::WIFSIGNALED(status) {
        true => Ending::Killed(libc::WTERMSIG(status)),
        false => Ending::Exited(libc::WEXITSTATUS(status) as u8),
    })
}

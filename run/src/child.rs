//! A program that runs, and how it ended.

use crate::pipe::End;
use crate::started::{self, Started};
use crate::streams::Pumps;
use crate::terminal::{Screen, Size};
use std::io;
use std::path::{Path, PathBuf};
use tane::Kernel;

/// A program that was started. Dropping it neither ends it nor waits for it.
pub struct Child {
    pub(crate) kernel: Kernel,
    pub(crate) started: Started,
    pub(crate) pumps: Pumps,
    pub(crate) terminal: Option<Kept>,
    pub(crate) without_file: Option<(PathBuf, io::Error)>,
}

/// The program's end of its terminal is held until it has ended: it may close its own, and
/// open them again.
pub(crate) struct Kept {
    pub _theirs: End,
    pub ours: Screen,
}

/// Sends signals to a program.
#[derive(Clone)]
pub struct Handle {
    kernel: Kernel,
    pid: i32,
    terminal: Option<Screen>,
}

impl Handle {
    /// As kill(2); `ESRCH` when it has ended and somebody has waited for it.
    pub fn kill(&self, signal: i32) -> io::Result<()> {
        kill(&self.kernel, self.pid, signal)
    }

    /// Also to the processes that it has started and that are of its group, as a terminal
    /// does with Ctrl-C; `ESRCH` when there are none of these any more either.
    pub fn kill_group(&self, signal: i32) -> io::Result<()> {
        kill(&self.kernel, -self.pid, signal)
    }

    /// Its terminal has another size from now on, which whoever is in the foreground there
    /// is told of (SIGWINCH). `ENOTTY` if it has none.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        match &self.terminal {
            Some(screen) => screen.resize(size),
            None => Err(io::Error::from_raw_os_error(libc::ENOTTY)),
        }
    }
}

fn kill(kernel: &Kernel, pid: i32, signal: i32) -> io::Result<()> {
    let args = [i64::from(pid) as u64, signal as u64, 0, 0, 0, 0];
    // SAFETY: no pointers.
    unsafe { kernel.try_syscall(libc::SYS_kill, args).map(drop) }
}

/// End all programs of this kernel, whoever has started them, and those that they have
/// left behind: nothing of what they had open is in use when this returns. Nobody may be
/// in [`Child::wait`] meanwhile.
pub fn end_all(kernel: &Kernel) -> io::Result<()> {
    match kill(kernel, -1, libc::SIGKILL) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
        _ => {}
    }
    loop {
        match started::wait4(kernel, -1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(()),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
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
        self.started.pid
    }

    /// What sends it signals, from any thread, also while somebody waits for its end.
    pub fn handle(&self) -> Handle {
        Handle {
            kernel: self.kernel.clone(),
            pid: self.started.pid,
            terminal: self.terminal.as_ref().map(|kept| kept.ours.clone()),
        }
    }

    /// The file of [`Command::file`](crate::Command::file) that it does not see, and why.
    pub fn without_file(&self) -> Option<(&Path, &io::Error)> {
        let without = self.without_file.as_ref();
        without.map(|(path, error)| (path.as_path(), error))
    }

    /// Send it a signal, as kill(2).
    pub fn kill(&self, signal: i32) -> io::Result<()> {
        self.handle().kill(signal)
    }

    /// Until it has ended and its output has arrived: what it has started may go on
    /// writing there.
    ///
    /// An error of the output, or `ESHUTDOWN` if the kernel ended before the program
    /// did; [`Kernel::last_words`] says why.
    pub fn wait(self) -> io::Result<Ending> {
        let ending = self.started.wait(&self.kernel)?;
        drop(self.terminal);
        self.pumps.finish()?;
        Ok(ending)
    }

    /// Until it has ended: whatever it has left behind is killed then ([`end_all`]), so that
    /// nobody has its output open, and that has arrived.
    ///
    /// Errors as those of [`Child::wait`].
    pub fn wait_and_end_all(self) -> io::Result<Ending> {
        let ending = self.started.wait(&self.kernel);
        let all_ended = end_all(&self.kernel);
        let ending = ending?;
        all_ended?;
        drop(self.terminal);
        self.pumps.finish()?;
        Ok(ending)
    }
}

impl Ending {
    /// Of what wait(2) gives.
    pub(crate) fn of(status: i32) -> Self {
        match libc::WIFSIGNALED(status) {
            true => Self::Killed(libc::WTERMSIG(status)),
            false => Self::Exited(libc::WEXITSTATUS(status) as u8),
        }
    }
}

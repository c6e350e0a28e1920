//! The programs that were started and not yet waited for: children of process 1, as are the
//! processes that programs leave behind. For these nobody waits but who waits for a program.

use crate::child::Ending;
use std::io;
use std::sync::Mutex;
use tane::Kernel;

/// By process id: one kernel of a process has programs. Held while one is being made, and
/// while it is decided whose the next one that ended is.
static STARTED: Mutex<Vec<i32>> = Mutex::new(Vec::new());

fn lock() -> std::sync::MutexGuard<'static, Vec<i32>> {
    STARTED.lock().unwrap_or_else(|e| e.into_inner())
}

/// One of them. Dropped it is one that was left behind.
pub struct Started {
    pub pid: i32,
}

impl Started {
    /// What `start` has started, by its id and whatever else that says.
    pub fn new<T, E>(start: impl FnOnce() -> Result<(i32, T), E>) -> Result<(Self, T), E> {
        let mut started = lock();
        let (pid, said) = start()?;
        started.push(pid);
        Ok((Self { pid }, said))
    }

    /// Until it has ended; those that were left behind and end before are forgotten.
    pub fn wait(&self, kernel: &Kernel) -> io::Result<Ending> {
        while let Some(ended) = again(|| peek(kernel))? {
            if ended == self.pid {
                break;
            }
            let started = lock();
            if started.contains(&ended) {
                // Somebody else's, who will wait for it: until then it hides others.
                break;
            }
            // Somebody may have been faster.
            wait4(kernel, ended).ok();
        }
        again(|| wait4(kernel, self.pid)).map(Ending::of)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        lock().retain(|pid| *pid != self.pid);
    }
}

fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Until a child of process 1 has ended: which. It stays to be waited for. `None`: there
/// are no children.
fn peek(kernel: &Kernel) -> io::Result<Option<i32>> {
    // SAFETY: all zeros are one.
    let mut ended: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT | libc::__WALL;
    let at = &raw mut ended as u64;
    let args = [libc::P_ALL.into(), 0, at, options as u64, 0, 0];
    // SAFETY: the call fills a structure of ours, which is then a child's.
    unsafe {
        match kernel.try_syscall(libc::SYS_waitid, args) {
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
            Err(error) => Err(error),
            Ok(_) => Ok(Some(ended.si_pid())),
        }
    }
}

/// wait4(2) as process 1: the status.
pub fn wait4(kernel: &Kernel, pid: i32) -> io::Result<i32> {
    let mut status = 0i32;
    let options = libc::__WALL as u64;
    let args = [
        i64::from(pid) as u64,
        &raw mut status as u64,
        options,
        0,
        0,
        0,
    ];
    // SAFETY: the call fills an integer of ours.
    unsafe { kernel.try_syscall(libc::SYS_wait4, args)? };
    Ok(status)
}

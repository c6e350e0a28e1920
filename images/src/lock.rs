//! The advisory locks on an image while it is in use, and the wait for those of others.
//!
//! Two kinds: flock(2), which programs that know of each other use, and the byte ranges
//! by which QEMU's programs tell each other what they do with a file.

mod holder;
mod qemu;
mod wait;

pub(crate) use holder::look;
pub use wait::LockWait;

use crate::host_use;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
pub(crate) use wait::Waiting;

/// An open image with both locks taken: shared for readers, exclusive for a writer.
/// The locks belong to the open file, not to the process: two disks of one process
/// are as separate as two programs.
///
/// They are given back by name, not by closing the last descriptor: a child that
/// another thread is just starting has a copy of every descriptor until it
/// executes its program.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Take the locks, or say who is in the way and what to do: the host too, which has
    /// none, if it is for writing. With `lock_wait`, wait
    /// for them; the file may be another one by then.
    pub fn take(
        file: &File,
        path: &Path,
        exclusive: bool,
        lock_wait: Option<&LockWait>,
    ) -> io::Result<Self> {
        let busy = |text: &str| {
            let text = format!("{}: {text}", path.display());
            Err(io::Error::new(io::ErrorKind::ResourceBusy, text))
        };
        let failed = |e: io::Error| {
            let text = format!("{}: cannot be locked: {e}", path.display());
            io::Error::new(e.kind(), text)
        };
        if exclusive {
            if let Some(used) = host_use::of(&file.metadata().map_err(failed)?, true) {
                return busy(&used.refusal());
            }
        }
        let mut waiting = Waiting::new(lock_wait);
        loop {
            if let Some(lock) = Self::attempt(file, exclusive).map_err(failed)? {
                return Ok(lock);
            }
            let who = || holder::of(file);
            let say = || {
                format!(
                    "{}: is in use by {}: waiting until it ends",
                    path.display(),
                    who()
                )
            };
            if holder::is_this_process(file) || !waiting.once_more(path, say)? {
                return busy(&refusal(&who(), exclusive));
            }
        }
    }

    /// Give QEMU's back, for a program that takes a lock on the whole file itself: that
    /// keeps QEMU's programs away as well.
    pub fn leave_bytes(&self) {
        qemu::give_back(&self.0);
    }

    /// None: somebody has one that is in the way.
    fn attempt(file: &File, exclusive: bool) -> io::Result<Option<Self>> {
        let kind = match exclusive {
            true => libc::LOCK_EX,
            false => libc::LOCK_SH,
        };
        let own = file.try_clone()?;
        // SAFETY: no memory involved.
        if unsafe { libc::flock(own.as_raw_fd(), kind | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // File systems without locks (some network ones) are used unlocked.
                Some(libc::ENOLCK | libc::EOPNOTSUPP) => {}
                Some(libc::EWOULDBLOCK) => return Ok(None),
                _ => return Err(error),
            }
        }
        let lock = Self(own);
        Ok(qemu::take(&lock.0, exclusive)?.then_some(lock))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        qemu::give_back(&self.0);
        // SAFETY: no memory involved.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

fn refusal(who: &holder::Holder, exclusive: bool) -> String {
    let remedy = match (who.is_us(), exclusive) {
        (true, _) => "close what has it open first",
        (false, true) => "wait until it ends (--wait), or open it read-only",
        (false, false) => "wait until it ends (--wait)",
    };
    format!("is in use by {who}: {remedy}")
}

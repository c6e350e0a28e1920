//! Checkpoints of a running kernel.

use crate::companion::Companion;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::machine::{Local, Machine};
use std::fmt;
use std::sync::{MutexGuard, PoisonError};

/// A state of a kernel, with all that is mounted and open, that it can go back to: see
/// [`Kernel::checkpoint`]. Keeps the kernel alive.
pub struct Checkpoint {
    kernel: Kernel,
    state: tane_host::Checkpoint,
}

impl Kernel {
    /// Remember what the kernel is now: its memory, what is mounted and open, and what its
    /// disks hold. [`Kernel::rollback`] goes back to that, in place and in less than a
    /// millisecond, as often as is wanted. Checkpoints may be made within others.
    ///
    /// Calls of other threads are waited for, and new ones wait meanwhile. The first
    /// checkpoint copies the kernel's memory, some milliseconds; each later one what was
    /// written since the one before.
    ///
    /// Disks must be able to go back: those of memory ([`Kernel::add_ram_disk`]), those that
    /// keep what is written in memory
    /// ([`DiskOptions::snapshot`](crate::DiskOptions::snapshot)), and those that are only
    /// read.
    ///
    /// Errors: EBUSY a call of another thread waits for something inside, requests to disks
    /// do not end, or programs run; ENOTSUP a disk cannot go back, there is a network card,
    /// or the kernel is shared, the host's, or in another process; EDEADLK called by what the
    /// kernel calls; ESHUTDOWN the kernel has ended.
    pub fn checkpoint(&self) -> Result<Checkpoint> {
        let _unwatched = self.unwatched("checkpoint")?;
        let local = self.local("checkpoint")?;
        let state = local
            .checkpoint_and(|then| local.ages.begin_checkpoint(then))
            .map_err(|error| Error::from_source(error.errno, "checkpoint", error))?;
        Ok(Checkpoint {
            kernel: self.clone(),
            state,
        })
    }

    /// Be again what it was at this checkpoint, which stays; newer ones are none any more.
    ///
    /// What was opened since answers EBADF (in calls of other threads that were about to begin,
    /// too), mappings made since ESTALE; files that were
    /// closed since stay closed, and what was unmounted since is mounted again, without a
    /// handle. What was synced since then is undone as well: that is what the checkpoint is
    /// for. Time goes on, unless it stands still
    /// ([`Builder::deterministic`](crate::Builder::deterministic)); then it goes back, and
    /// so do random numbers, which otherwise may come a second time.
    ///
    /// Errors: those of [`Kernel::checkpoint`]; EBUSY a disk was added or removed since;
    /// ESTALE the kernel has gone back to an older one; EINVAL it is another kernel's. The
    /// kernel is as it was before the call then. If it fails half-way (the host has no
    /// memory for a disk's content, for instance) the kernel is ended, and the error says
    /// so.
    pub fn rollback(&self, checkpoint: &Checkpoint) -> Result<()> {
        let refused = |errno, text: &str| Err(Error::plain(errno, "roll back", text));
        if !self.is_same(&checkpoint.kernel) {
            return refused(libc::EINVAL, "the checkpoint is of another kernel");
        }
        let local = self.local("roll back")?;
        let _unwatched = self.unwatched("roll back")?;
        let then = checkpoint.state.moment();
        let mut open_again = Vec::new();
        local
            .rollback_and(&checkpoint.state, |now| {
                open_again = local.ages.go_back(then, now);
            })
            .map_err(|error| Error::from_source(error.errno, "roll back", error))?;
        // Nobody else checks or goes back: the numbers stay theirs.
        local.take_back_all(&open_again);
        Ok(())
    }
}

impl Kernel {
    fn local(&self, action: &'static str) -> Result<&Local> {
        match self.machine() {
            Machine::Tane(local) => Ok(local),
            Machine::Host | Machine::Remote(_) => Err(Error::plain(
                libc::ENOTSUP,
                action,
                "only a kernel in this process can go back",
            )),
        }
    }

    /// Nothing is watched as long as this is held: whoever watches waits inside.
    fn unwatched(&self, action: &'static str) -> Result<MutexGuard<'_, Companion>> {
        let watcher = self
            .watcher()
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match watcher.is_gone() {
            true => Ok(watcher),
            false => Err(Error::plain(
                libc::EBUSY,
                action,
                "a socket or pipe is watched (Watch, tane_socket_poll_fd), for which a thread \
                 waits inside: close it before",
            )),
        }
    }
}

impl Checkpoint {
    /// Whose it is.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if let Machine::Tane(local) = self.kernel.machine() {
            local.ages.end_checkpoint(self.state.moment());
        }
    }
}

impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checkpoint of {:?}", self.kernel)
    }
}

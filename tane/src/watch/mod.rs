//! Waiting for a kernel's descriptors by the host's calls: poll(2), epoll(7), and what is made
//! of them, such as tokio, asyncio and Go's scheduler.
//!
//! ```text
//! signal.rs   a descriptor of the host's that is ready when it is told to be
//! thread.rs   one thread of a kernel's waits inside for all that is watched
//! ```
//!
//! Each watched descriptor is in an epoll of the kernel's, once for each time that it was not
//! ready (EPOLLONESHOT): while nothing changes, or somebody is told already, nobody is woken.
//! Who makes calls with the descriptor says what came of them, so that the signal is down
//! again when there is nothing to be had.

mod signal;
mod thread;

use crate::kernel::Kernel;
use crate::poll::{READ, WRITE};
use crate::sys::Fd;
use signal::Signal;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use tane_linux::Linux;
use thread::Watcher;

/// What a descriptor is ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(u8);

impl Ready {
    /// There is something to read, to accept, or an end or an error.
    pub const READ: Ready = Ready(1);
    /// There is room, the connection is there, or it has failed.
    pub const WRITE: Ready = Ready(2);
    /// Either.
    pub const BOTH: Ready = Ready(3);

    /// Whether it has all of that.
    pub const fn has(self, other: Ready) -> bool {
        self.0 & other.0 == other.0
    }

    fn of_events(events: u32) -> Self {
        let bit = |mask, ready: Ready| if events & mask != 0 { ready.0 } else { 0 };
        Ready(bit(READ, Self::READ) | bit(WRITE, Self::WRITE))
    }

    fn events(self) -> u32 {
        let bits = |ready, events| if self.has(ready) { events } else { 0 };
        bits(Self::READ, READ) | bits(Self::WRITE, WRITE)
    }

    const fn but(self, other: Ready) -> Ready {
        Ready(self.0 & !other.0)
    }

    const fn and(self, other: Ready) -> Ready {
        Ready(self.0 | other.0)
    }

    const fn both_of(self, other: Ready) -> Ready {
        Ready(self.0 & other.0)
    }

    const fn is_any(self) -> bool {
        self.0 != 0
    }
}

/// A kernel's descriptor, watched: the descriptor of the host's that it lends
/// ([`AsFd`]) is readable and writable when the kernel's is. Nobody reads or writes that one;
/// it is for poll(2) and epoll(7), level- or edge-triggered.
///
/// Sockets of [`net`](crate::net) have one of their own
/// ([`net::Watched`](crate::net::Watched)), and tell it what came of their calls. For others
/// ([`Kernel::watch`]) that is the program's: after a call that answered EAGAIN
/// [`Watch::would_block`], after others [`Watch::look_again`], or it stays ready.
///
/// All watches of a kernel have one thread, which waits inside it, and ends with the last of
/// them. While they exist there are no checkpoints ([`Kernel::checkpoint`] is EBUSY).
pub struct Watch {
    entry: Arc<Entry>,
    watcher: Arc<Watcher>,
}

pub(crate) struct Entry {
    /// One of our own, so that it is there whoever closes theirs.
    fd: Fd,
    signal: Signal,
    /// What the signal says.
    told: Mutex<Ready>,
    key: u64,
}

impl Kernel {
    /// Watch a descriptor of the kernel's: a socket, a pipe, whatever poll(2) takes.
    ///
    /// Errors: EBADF there is no such descriptor; EPERM it is always ready, such as a file;
    /// EMFILE the host's limit on descriptors, of which this takes two.
    pub fn watch(&self, fd: RawFd) -> io::Result<Watch> {
        let watcher = Watcher::of(self)?;
        let fd = self
            .dup(fd)
            .map_err(|errno| io::Error::from_raw_os_error(errno.0))?;
        let entry = watcher.add(fd)?;
        let watch = Watch { entry, watcher };
        watch.catch_up();
        Ok(watch)
    }
}

impl Watch {
    /// What has come up to now is told when this returns, rather than in a moment.
    pub fn catch_up(&self) {
        if self.watcher.is_of_this_process() {
            // The thread waits for what is missing, or is about to tell it again.
            self.entry.tell(Ready::BOTH, |_| ());
        }
    }

    /// A call answered EAGAIN or EINPROGRESS: it is not ready for this, until it is again.
    pub fn would_block(&self, ready: Ready) {
        self.put_down(|_| ready);
    }

    /// A call did something: it may not be ready for this any more.
    pub fn look_again(&self, ready: Ready) {
        self.put_down(|told| {
            let told = told.both_of(ready);
            match told.is_any() {
                true => told.but(self.entry.ready_now(told)),
                false => told,
            }
        });
    }

    fn put_down(&self, what: impl FnOnce(Ready) -> Ready) {
        if !self.watcher.is_of_this_process() {
            return;
        }
        let mut told = self
            .entry
            .told
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let down = what(*told).both_of(*told);
        if down.is_any() {
            self.entry.signal.set(down, false);
            *told = told.but(down);
            self.watcher.wait_for(&self.entry, Ready::BOTH.but(*told));
        }
    }
}

impl Entry {
    /// Which of these, without waiting. What cannot be asked is ready for an error.
    fn ready_now(&self, which: Ready) -> Ready {
        if !which.is_any() {
            return which;
        }
        let mut polled = libc::pollfd {
            fd: self.fd.raw(),
            events: which.events() as i16,
            revents: 0,
        };
        let args = [&raw mut polled as u64, 1, 0, 0, 0, 0];
        // SAFETY: one structure, which is ours.
        match unsafe { self.fd.kernel.call(libc::SYS_poll, args) } {
            0 => Ready(0),
            1.. => Ready::of_events(polled.revents as u16 as u32),
            _ => which,
        }
    }

    /// The signal says what has come; `rest` waits for what has not. Until now somebody may
    /// have taken it, or begun to connect, which is looked at with `told` in hand: whoever is
    /// told what was so a while ago takes it for the answer to what he asked since.
    fn tell(&self, ready: Ready, rest: impl FnOnce(Ready)) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let new = self.ready_now(ready.but(*told)).both_of(ready.but(*told));
        self.signal.set(new, true);
        *told = told.and(new);
        let missing = Ready::BOTH.but(*told);
        if missing.is_any() {
            rest(missing);
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.entry.signal.as_fd()
    }
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Watch({} of {:?})",
            self.as_raw_fd(),
            self.entry.fd.kernel
        )
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watcher.remove(&self.entry);
    }
}

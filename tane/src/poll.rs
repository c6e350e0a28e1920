//! Waiting for many descriptors: epoll(7), of the host's kernel or of ours.

use crate::kernel::Kernel;
use crate::sys::Fd;
use std::io;
use tane_linux::Linux;

pub const IN: u32 = libc::EPOLLIN as u32;
pub const ERROR: u32 = libc::EPOLLERR as u32;
/// Ready or broken.
pub const READ: u32 = (libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLERR | libc::EPOLLHUP) as u32;
pub const WRITE: u32 = (libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP) as u32;
/// All that a flow waits for, each time that it comes anew.
pub const FLOW: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP) as u32 | libc::EPOLLET as u32;
const EVENTS: usize = 128;

/// What is waited for, by descriptors of one Linux. A word, written by anybody, ends a wait.
pub struct Poll {
    epoll: Fd,
    word: Fd,
}

/// The key of the word.
const WORD: u64 = u64::MAX;

/// # Safety
/// As of the call.
unsafe fn call(kernel: &Kernel, nr: i64, [a, b, c, d]: [u64; 4]) -> io::Result<i64> {
    // SAFETY: as the caller promises.
    match unsafe { kernel.call(nr, [a, b, c, d, 0, 8]) } {
        n @ 0.. => Ok(n),
        errno => Err(io::Error::from_raw_os_error(-errno as i32)),
    }
}

impl Poll {
    pub fn new(kernel: &Kernel) -> io::Result<Self> {
        let make = |nr, args| {
            // SAFETY: numbers.
            let (number, age) = kernel.dated(|| unsafe { call(kernel, nr, args) })?;
            io::Result::Ok(Fd::new(kernel, number as i32, age))
        };
        let flags = (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as u64;
        let epoll = [libc::EPOLL_CLOEXEC as u64, 0, 0, 0];
        let poll = Self {
            epoll: make(libc::SYS_epoll_create1, epoll)?,
            word: make(libc::SYS_eventfd2, [0, flags, 0, 0])?,
        };
        poll.add(poll.word.raw(), IN, WORD)?;
        Ok(poll)
    }

    /// # Safety
    /// As of the call.
    unsafe fn call(&self, nr: i64, args: [u64; 4]) -> io::Result<i64> {
        // SAFETY: as the caller promises.
        unsafe { call(&self.epoll.kernel, nr, args) }
    }

    /// Wait for these events of a descriptor until it is closed.
    pub fn add(&self, fd: i32, events: u32, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, events, key)
    }

    /// Wait for these from now on, of one that was added.
    pub fn change(&self, fd: i32, events: u32, key: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, events, key)
    }

    fn control(&self, what: i32, fd: i32, events: u32, key: u64) -> io::Result<()> {
        let event = libc::epoll_event { events, u64: key };
        let at = &raw const event as u64;
        let args = [self.epoll.raw() as u64, what as u64, fd as u64, at];
        // SAFETY: reads an event.
        unsafe { self.call(libc::SYS_epoll_ctl, args) }.map(drop)
    }

    /// No longer. Another handle may keep a descriptor open.
    pub fn remove(&self, fd: i32) {
        let args = [
            self.epoll.raw() as u64,
            libc::EPOLL_CTL_DEL as u64,
            fd as u64,
            0,
        ];
        // SAFETY: numbers. What is not there need not go.
        let _ = unsafe { self.call(libc::SYS_epoll_ctl, args) };
    }

    /// Have who waits look around.
    pub fn wake(&self) {
        let one = 1u64;
        let args = [self.word.raw() as u64, &raw const one as u64, 8, 0];
        // SAFETY: reads a number. It fails only when it is awake already.
        let _ = unsafe { self.call(libc::SYS_write, args) };
    }

    /// What has come, by keys; at most so many milliseconds.
    pub fn wait(&self, timeout: i32, seen: &mut Vec<(u64, u32)>) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        seen.clear();
        let args = [
            self.epoll.raw() as u64,
            events.as_mut_ptr() as u64,
            EVENTS as u64,
            timeout as u64,
        ];
        // SAFETY: writes at most so many events.
        let n = match unsafe { self.call(libc::SYS_epoll_wait, args) } {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other? as usize,
        };
        for event in &events[..n] {
            if event.u64 != WORD {
                seen.push((event.u64, event.events));
                continue;
            }
            let mut count = 0u64;
            let args = [self.word.raw() as u64, &raw mut count as u64, 8, 0];
            // SAFETY: writes a number.
            let _ = unsafe { self.call(libc::SYS_read, args) };
        }
        Ok(())
    }
}

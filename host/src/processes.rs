//! The processes that share one kernel: the one that booted it, which is number 1, and
//! forks of it. What all of them must know lies in the area; nothing of it is locked,
//! since whoever held a lock might be killed.

use crate::abi;
use crate::area::Area;
use crate::futex;
use crate::thread_slot::ThreadSlot;
use std::cell::UnsafeCell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicU8, Ordering};

/// Most processes that can share a kernel at a time, the one that booted it included.
const MAX_PROCESSES: usize = 1024;
/// The number of the process that boots.
pub const FIRST: u32 = 1;

/// States of a [`Process`].
pub const FREE: u32 = 0;
/// Linux has it; the host's fork(2) is under way.
pub const PREPARED: u32 = 1;
/// It runs, and nobody watches it yet.
pub const NEW: u32 = 2;
/// It runs; its end will be noticed.
pub const WATCHED: u32 = 3;
/// Its end was noticed.
pub const ENDING: u32 = 4;
/// It says which one it is.
pub const APPEARING: u32 = 5;

/// A process of that number is making it. In one word: who makes it may be killed after
/// any instruction.
pub const fn taken_by(parent: u32) -> u32 {
    0x100 + parent
}

/// One of them.
#[repr(C)]
pub struct Process {
    /// A futex: the process waits until its end will be noticed.
    pub state: AtomicU32,
    /// Its id in the host.
    pub host: AtomicU32,
    /// That of the copy of the first one that does what it no longer can; 0: none.
    pub stand_in: AtomicU32,
    /// Its id in Linux.
    pub pid: AtomicI32,
    /// When it was prepared: CLOCK_MONOTONIC in ns.
    pub since: AtomicU64,
}

const DEVICES: usize = abi::MAX_DEVICES;
const LAST_WORDS: usize = 4096;

/// What the processes share beside CPUs and slots.
#[repr(C)]
pub struct Shared {
    /// A mutex that a thread of the process that booted holds as long as it lives: the
    /// host tells who tries to get it whether that is so.
    alive: UnsafeCell<libc::pthread_mutex_t>,
    /// Changes whenever something is taken away from the kernel's own mappings.
    pub generation: AtomicU64,
    /// A futex: there is something for the process that booted.
    pub bell: AtomicU32,
    /// By device, what its driver rang: queues, [`STATUS`].
    pub rung: [AtomicU64; DEVICES],
    /// By device, how often [`STATUS`] was answered: a futex.
    pub answered: [AtomicU32; DEVICES],
    /// By number.
    pub processes: [Process; MAX_PROCESSES],
    /// Why the kernel ended: 0 not at all, 1 + whether it panicked.
    death: AtomicU32,
    words: [AtomicU8; LAST_WORDS],
    pub log: crate::log::Ring,
}

/// In [`Shared::rung`]: the driver wrote the status, and waits.
pub const STATUS: u64 = 1 << 63;

// SAFETY: the mutex is for threads of several processes; all else is atomic.
unsafe impl Sync for Shared {}

impl Shared {
    /// For this thread to hold for good: called once, before anybody else looks.
    pub fn stay_alive(&self) {
        // SAFETY: nobody else uses the mutex yet; the attributes are ours.
        unsafe {
            let mut how: libc::pthread_mutexattr_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut how);
            libc::pthread_mutexattr_setpshared(&raw mut how, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(&raw mut how, libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(self.alive.get(), &raw const how);
            libc::pthread_mutexattr_destroy(&raw mut how);
            libc::pthread_mutex_lock(self.alive.get());
        }
    }

    /// Give it back, as the thread's last act.
    pub fn depart(&self) {
        // SAFETY: this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.alive.get()) };
    }

    /// Whether the process that booted is still there.
    pub fn is_first_alive(&self) -> bool {
        // SAFETY: a mutex for several processes, set up before there were any.
        match unsafe { libc::pthread_mutex_trylock(self.alive.get()) } {
            libc::EBUSY => true,
            libc::ENOTRECOVERABLE => false,
            _ => {
                // SAFETY: just taken. Whoever comes next is told the same.
                unsafe { libc::pthread_mutex_unlock(self.alive.get()) };
                false
            }
        }
    }

    /// Wake the process that booted.
    pub fn ring(&self) {
        self.bell.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.bell);
    }

    pub fn process(&self, number: u32) -> Option<&Process> {
        self.processes.get(number as usize)
    }

    /// The process of that state with all its numbers.
    pub fn in_state(&self, state: u32) -> impl Iterator<Item = (u32, &Process)> {
        let all = (0..).zip(&self.processes).skip(FIRST as usize);
        all.filter(move |(_, process)| process.state.load(Ordering::Acquire) == state)
    }

    pub fn take_process(&self, parent: u32) -> Option<u32> {
        let (number, process) = (0..).zip(&self.processes).skip(1).find(|(_, process)| {
            let (relaxed, acquire) = (Ordering::Relaxed, Ordering::Acquire);
            process
                .state
                .compare_exchange(FREE, taken_by(parent), acquire, relaxed)
                .is_ok()
        })?;
        process.host.store(0, Ordering::Relaxed);
        process.stand_in.store(0, Ordering::Relaxed);
        let now = crate::service::now();
        process.since.store(now, Ordering::Relaxed);
        Some(number)
    }

    /// Say why the kernel ended, unless somebody has.
    pub fn say_last(&self, panicked: bool, text: &str) {
        let why = 1 + u32::from(panicked);
        let bytes = text.bytes().chain([0]).take(LAST_WORDS - 1);
        if self.death.load(Ordering::Acquire) == 0 {
            for (byte, to) in bytes.zip(&self.words) {
                to.store(byte, Ordering::Relaxed);
            }
        }
        self.death
            .compare_exchange(0, why, Ordering::Release, Ordering::Relaxed)
            .ok();
    }

    /// Whether it panicked, and what was said.
    pub fn last_words(&self) -> Option<(bool, String)> {
        let why = self.death.load(Ordering::Acquire);
        let bytes = self.words.iter().map(|byte| byte.load(Ordering::Relaxed));
        let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        (why != 0).then_some((why == 2, text))
    }
}

/// This process's part in a shared kernel. A fork has a copy of its parent's, until
/// `fork.rs` has made it its own.
pub struct Member {
    pub number: AtomicU32,
    /// The slot of the task that makes others of this process.
    pub leader: AtomicU64,
    /// For whoever has it ask for something: 0 free.
    pub asking: AtomicU32,
    /// The generation of kernel mappings that this process has.
    pub seen: AtomicU64,
    /// Whether the kernel has booted.
    up: AtomicBool,
}

impl Member {
    /// Of the process that boots.
    pub fn first(area: &Area) -> Self {
        let shared = &area.common().shared;
        let first = &shared.processes[FIRST as usize];
        first.host.store(std::process::id(), Ordering::Relaxed);
        first.pid.store(1, Ordering::Relaxed);
        first.state.store(WATCHED, Ordering::Release);
        Self {
            number: AtomicU32::new(FIRST),
            leader: AtomicU64::new(area.init_thread().address()),
            asking: AtomicU32::new(0),
            seen: AtomicU64::new(0),
            up: AtomicBool::new(false),
        }
    }

    /// It has booted: forks may share it.
    pub fn is_up_now(&self) {
        self.up.store(true, Ordering::Release);
    }

    pub fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    pub fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    pub fn leader(&self) -> ThreadSlot {
        // SAFETY: a slot of the area.
        unsafe { ThreadSlot::at(self.leader.load(Ordering::Relaxed)) }
    }

    /// The leader, for this thread alone until that is dropped.
    pub fn ask(&self) -> Asking<'_> {
        loop {
            match self.try_ask() {
                Some(asking) => return asking,
                None => futex::wait(&self.asking, 1, None),
            }
        }
    }

    /// The same, if nobody has it.
    pub fn try_ask(&self) -> Option<Asking<'_>> {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let taken = self.asking.compare_exchange(0, 1, acquire, relaxed);
        taken.is_ok().then(|| Asking(&self.asking))
    }
}

/// See [`Member::ask`].
pub struct Asking<'a>(&'a AtomicU32);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
        futex::wake(self.0);
    }
}

/// pidfd_open(2) of a process of the host.
pub fn open_pidfd(host: u32) -> io::Result<OwnedFd> {
    // SAFETY: no memory involved.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, host, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor of ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Whether this process of the host has ended, waited for or not.
pub fn has_ended(host: u32) -> bool {
    let file = match open_pidfd(host) {
        Ok(file) => file,
        // Others are no answer: no descriptor is free, say.
        Err(error) => return error.raw_os_error() == Some(libc::ESRCH),
    };
    let mut poll = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: writes a structure of ours.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

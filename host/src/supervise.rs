//! What only the process that booted a shared kernel does for the others: it answers
//! their doorbells, since the devices are its own, and ends in Linux what has ended in
//! the host.

use crate::abi;
use crate::cpu;
use crate::ended;
use crate::errands;
use crate::futex;
use crate::inner::Inner;
use crate::processes::{self, open_pidfd, Process, Shared};
use crate::reap::Copies;
use crate::service::now;
use crate::thread;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a child that Linux has may take to appear in the host, in ns: then it was
/// killed before it could say so.
const APPEARS: u64 = 10_000_000_000;
/// How often to look for that, and for a CPU that nobody will leave any more.
const OFTEN: Duration = Duration::from_secs(1);

/// States of processes that the host may never have.
const UNSEEN: [u32; 2] = [processes::PREPARED, processes::APPEARING];

/// The processes that are watched.
struct Watch {
    epoll: OwnedFd,
    /// An eventfd that has the reaper look round.
    event: OwnedFd,
    files: Mutex<HashMap<u32, OwnedFd>>,
}

/// Start the two threads: one sleeps on the bell, the other until a process ends.
pub fn spawn(kernel: &Arc<Inner>) -> io::Result<Vec<JoinHandle<()>>> {
    let watch = Arc::new(Watch::new()?);
    // Not owners: the last handle's drop joins these threads.
    let address = Arc::as_ptr(kernel) as usize;
    let theirs = Arc::clone(&watch);
    let (ready, is_ready) = std::sync::mpsc::sync_channel(1);
    let bell = start("tane-bell", move || {
        // SAFETY: the kernel outlives its service threads.
        let kernel = unsafe { &*(address as *const Inner) };
        let shared = &kernel.area.common().shared;
        shared.stay_alive();
        ready.send(()).ok();
        answer(kernel, shared, &theirs);
        shared.depart();
    })?;
    is_ready.recv().ok();
    let reaper = start("tane-reaper", move || {
        // SAFETY: as above.
        reap(unsafe { &*(address as *const Inner) }, &watch);
    });
    match reaper {
        Ok(reaper) => Ok(vec![bell, reaper]),
        Err(error) => {
            kernel.kernel_died(0, "no thread to watch its processes");
            kernel.area.common().shared.ring();
            bell.join().ok();
            Err(error)
        }
    }
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.into())
        .stack_size(256 << 10)
        .spawn(move || {
            thread::block_signals();
            thread::ensure_signal_stack();
            // It may be long inside one CPU: others are kicked at once.
            errands::none_for_this_thread();
            run();
        })
}

/// Until the kernel ends: devices and new processes.
fn answer(kernel: &Inner, shared: &Shared, watch: &Watch) {
    cpu::stand_outside();
    loop {
        let seen = shared.bell.load(Ordering::SeqCst);
        if kernel.is_dead() {
            return watch.wake();
        }
        for slot in 0..abi::MAX_DEVICES {
            answer_device(kernel, shared, slot);
        }
        for (number, process) in shared.in_state(processes::NEW) {
            watch.add(number, process);
        }
        for state in UNSEEN {
            for (_, process) in shared.in_state(state) {
                if now().saturating_sub(process.since.load(Ordering::Relaxed)) > APPEARS {
                    lose(process, state);
                }
            }
        }
        if shared.in_state(processes::ENDING).next().is_some() {
            watch.wake();
        }
        let mut awaited = UNSEEN.into_iter().chain([processes::NEW]);
        let awaits = awaited.any(|state| shared.in_state(state).next().is_some());
        futex::wait(&shared.bell, seen, awaits.then_some(OFTEN));
    }
}

fn answer_device(kernel: &Inner, shared: &Shared, slot: usize) {
    if shared.rung[slot].load(Ordering::Relaxed) == 0 {
        return;
    }
    let rung = shared.rung[slot].swap(0, Ordering::SeqCst);
    for queue in 0..abi::MAX_QUEUES as u32 {
        if rung >> queue & 1 != 0 {
            kernel.notify(slot as u32, queue);
        }
    }
    if rung & processes::STATUS != 0 {
        kernel.notify(slot as u32, abi::NOTIFY_STATUS);
        shared.answered[slot].fetch_add(1, Ordering::SeqCst);
        futex::wake(&shared.answered[slot]);
    }
}

/// Its end was noticed in another way, if it is in this state.
fn lose(process: &Process, state: u32) {
    let (relaxed, order) = (Ordering::Relaxed, Ordering::AcqRel);
    process
        .state
        .compare_exchange(state, processes::ENDING, order, relaxed)
        .ok();
    futex::wake(&process.state);
}

/// In epoll: not a process's number.
const WAKE: u64 = u64::MAX;

fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Watch {
    fn new() -> io::Result<Self> {
        open_pidfd(std::process::id()).map_err(|error| {
            let text = format!("the host tells nobody how processes end (pidfd_open): {error}");
            io::Error::new(error.kind(), text)
        })?;
        // SAFETY: no memory involved.
        let watch = unsafe {
            Self {
                epoll: owned(libc::epoll_create1(libc::EPOLL_CLOEXEC))?,
                event: owned(libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?,
                files: Mutex::new(HashMap::new()),
            }
        };
        match watch.control(&watch.event, libc::EPOLLIN, WAKE) {
            true => Ok(watch),
            false => Err(io::Error::last_os_error()),
        }
    }

    fn control(&self, fd: &impl AsRawFd, events: i32, data: u64) -> bool {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: data,
        };
        let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: reads a structure of ours.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) == 0 }
    }

    /// Notice the end of a process that has just appeared. If this process has no
    /// descriptor left for it, later.
    fn add(&self, number: u32, process: &Process) {
        let file = match open_pidfd(process.host.load(Ordering::Relaxed)) {
            Ok(file) => file,
            Err(error) => {
                if error.raw_os_error() == Some(libc::ESRCH) {
                    // It has ended, and its parent has seen that.
                    lose(process, processes::NEW);
                }
                return;
            }
        };
        // The reaper has it only after this.
        let mut files = self.files.lock().unwrap();
        if self.control(&file, libc::EPOLLIN, number.into()) {
            files.insert(number, file);
            process.state.store(processes::WATCHED, Ordering::Release);
            futex::wake(&process.state);
            // It may sleep until something happens.
            self.wake();
        }
    }

    /// Have the reaper look round.
    fn wake(&self) {
        let one = 1u64;
        // SAFETY: reads a word of ours.
        unsafe { libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Forget that it was to look.
    fn look(&self) {
        let mut count = 0u64;
        // SAFETY: writes a word of ours.
        unsafe { libc::read(self.event.as_raw_fd(), (&raw mut count).cast(), 8) };
    }

    /// Take it out of epoll too: a fork has a copy of the descriptor, so that to close it
    /// is not enough.
    fn remove(&self, number: u32) -> Option<OwnedFd> {
        let file = self.files.lock().unwrap().remove(&number)?;
        let (epoll, none) = (self.epoll.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: no memory involved.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_DEL, file.as_raw_fd(), none) };
        Some(file)
    }

    /// Until something has happened or, if there are processes, it is time to look.
    fn wait(&self) -> Vec<u64> {
        let timeout = match self.files.lock().unwrap().is_empty() {
            true => -1,
            false => OFTEN.as_millis() as i32,
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        let (epoll, len) = (self.epoll.as_raw_fd(), events.len() as i32);
        // SAFETY: writes an array of ours.
        let n = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), len, timeout) };
        let events = events.iter().take(n.max(0) as usize);
        events.map(|event| event.u64).collect()
    }
}

/// Until the kernel ends: processes that have.
fn reap(kernel: &Inner, watch: &Watch) {
    let shared = &kernel.area.common().shared;
    let mut copies = Copies::default();
    while !kernel.is_dead() {
        kernel.look_for_lost();
        for event in watch.wait() {
            let Some(number) = u32::try_from(event).ok().filter(|_| event != WAKE) else {
                watch.look();
                continue;
            };
            let Some(process) = shared.process(number) else {
                continue;
            };
            let file = watch.remove(number);
            let host = process.host.load(Ordering::Relaxed);
            let status = file.map_or(0, |file| ended::status(host, &file));
            process.state.store(processes::ENDING, Ordering::Release);
            kernel.reap(number, process, status, &mut copies);
        }
        for (number, process) in shared.in_state(processes::ENDING) {
            kernel.reap(number, process, libc::SIGKILL, &mut copies);
        }
    }
}

//! The thread that waits inside a kernel for all of its descriptors that are watched.

use super::{Entry, Ready, Signal};
use crate::companion::Companion;
use crate::kernel::Kernel;
use crate::poll::Poll;
use crate::sys::Fd;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tane_net::thread::spawn;

const ONCE: u32 = libc::EPOLLONESHOT as u32;

/// What the thread has in common with those who watch.
struct Shared {
    poll: Poll,
    entries: Mutex<HashMap<u64, Arc<Entry>>>,
    stop: AtomicBool,
}

/// A kernel's thread that watches. It ends with the last handle of it.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    next: AtomicU64,
    /// Threads stay with the process that started them: a fork has none.
    process: u32,
}

impl Watcher {
    /// That of this kernel, which is started if it does not run.
    pub fn of(kernel: &Kernel) -> io::Result<Arc<Self>> {
        let mut known = kernel
            .watcher()
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match known.get::<Self>() {
            Some(watcher) if watcher.is_of_this_process() => return Ok(watcher),
            _ => {}
        }
        let shared = Arc::new(Shared {
            poll: Poll::new(kernel)?,
            entries: Mutex::default(),
            stop: AtomicBool::new(false),
        });
        let thread = {
            let shared = shared.clone();
            spawn("tane-watch", move || shared.serve())?
        };
        let watcher = Arc::new(Watcher {
            shared,
            thread: Some(thread),
            next: AtomicU64::new(0),
            process: std::process::id(),
        });
        *known = Companion::of(&watcher);
        Ok(watcher)
    }

    pub fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    pub fn add(&self, fd: Fd) -> io::Result<Arc<Entry>> {
        let entry = Arc::new(Entry {
            fd,
            signal: Signal::new()?,
            told: Mutex::new(Ready(0)),
            key: self.next.fetch_add(1, Ordering::Relaxed),
        });
        // It may be ready at once.
        self.entries().insert(entry.key, entry.clone());
        let events = Ready::BOTH.events() | ONCE;
        match self.shared.poll.add(entry.fd.raw(), events, entry.key) {
            Ok(()) => Ok(entry),
            Err(error) => {
                self.entries().remove(&entry.key);
                Err(error)
            }
        }
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Entry>>> {
        let entries = self.shared.entries.lock();
        entries.unwrap_or_else(PoisonError::into_inner)
    }

    /// Tell the entry when one of these comes.
    pub fn wait_for(&self, entry: &Entry, ready: Ready) {
        self.shared.wait_for(entry, ready);
    }

    pub fn remove(&self, entry: &Entry) {
        if self.is_of_this_process() {
            self.shared.poll.remove(entry.fd.raw());
            self.entries().remove(&entry.key);
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if !self.is_of_this_process() {
            return;
        }
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.poll.wake();
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn wait_for(&self, entry: &Entry, ready: Ready) {
        let events = ready.events() | ONCE;
        if self.poll.change(entry.fd.raw(), events, entry.key).is_err() {
            // The kernel has ended: calls say so.
            entry.signal.set(ready, true);
        }
    }

    fn serve(&self) {
        let mut seen = Vec::new();
        while !self.stop.load(Ordering::SeqCst) {
            if self.poll.wait(-1, &mut seen).is_err() {
                break;
            }
            for (key, events) in seen.drain(..) {
                let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(entry) = entries.get(&key).cloned() else {
                    continue;
                };
                drop(entries);
                let rest = |missing| self.wait_for(&entry, missing);
                entry.tell(Ready::of_events(events), rest);
            }
        }
        // Of a kernel that has ended everything is ready: for the error that says so.
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries.values() {
            entry.tell(Ready::BOTH, |_| ());
        }
    }
}

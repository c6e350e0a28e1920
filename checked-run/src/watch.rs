//! The end of a module's time: a thread that sleeps until then, and tells the thread that
//! runs the module, again and again until it came out.

use crate::signals::time_signal;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A module that makes calls is in its own code at some of these moments.
const AGAIN: Duration = Duration::from_millis(1);

/// To ask for the time takes longer than a call, so that no call does: the watcher looks, so often
/// in the time of one, which calls go on.
const LOOKS: u32 = 16;
const LOOK: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(1)];

#[derive(Default)]
struct State {
    /// A call is under way.
    running: bool,
    /// How many there were, that one included, and how long it may take.
    calls: u64,
    limit: Duration,
    /// No call is to go on.
    stopped: bool,
    over: bool,
    /// The watcher sleeps until it is woken.
    asleep: bool,
}

/// Between what ends a sleep and the signal: so many delays, each this much longer.
const DELAYS: u32 = 16;
const STEP: Duration = Duration::from_nanos(1_300);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Ends the calls of an instance from another thread: their time is over.
#[derive(Clone)]
pub struct Stopper(Arc<Shared>);

impl Stopper {
    /// From now on; those to come end at their beginning.
    pub fn stop(&self) {
        let mut state = self.0.lock();
        state.stopped = true;
        if state.running {
            self.0.changed.notify_one();
        }
    }
}

/// Who watches one instance.
pub struct Watch {
    process: u64,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// For calls on this thread. When one is out of time, `cancel` is told each time: it
    /// marks the instance, and ends what it waits for elsewhere.
    pub fn new(cancel: impl Fn() + Send + 'static) -> io::Result<Watch> {
        // SAFETY: no arguments.
        let (process, thread) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
        let shared = Arc::<Shared>::default();
        let its = shared.clone();
        let watch = move || {
            let mut turn = 0;
            // The last call that was seen, and when it was first.
            let (mut seen, mut since) = (0, Instant::now());
            let mut state = its.lock();
            while !state.over {
                if seen != state.calls {
                    (seen, since) = (state.calls, Instant::now());
                }
                let left = state.limit.saturating_sub(since.elapsed());
                let ends = state.running && (state.stopped || left.is_zero());
                let left = match ends {
                    false if left.is_zero() => None,
                    false => Some(left.min((state.limit / LOOKS).clamp(LOOK[0], LOOK[1]))),
                    true => {
                        // A module that goes from one sleep to the next is code of its own
                        // for some nanoseconds, at the same time after each cancel: one of
                        // many delays meets it.
                        for delay in (0..DELAYS).map(|n| (n * 37 + turn) % DELAYS) {
                            cancel();
                            let sent = Instant::now();
                            while sent.elapsed() < STEP * delay {
                                std::hint::spin_loop();
                            }
                            // SAFETY: the thread waits for this one to end before it does.
                            unsafe {
                                libc::syscall(libc::SYS_tgkill, process, thread, time_signal());
                            }
                        }
                        turn += 1;
                        Some(AGAIN)
                    }
                };
                state.asleep = left.is_none();
                state = match left {
                    None => its.changed.wait(state).unwrap_or_else(|e| e.into_inner()),
                    Some(left) => {
                        let waited = its.changed.wait_timeout(state, left);
                        waited.unwrap_or_else(|e| e.into_inner()).0
                    }
                };
            }
        };
        let thread = std::thread::Builder::new()
            .name("tane-watch".into())
            .spawn(watch)?;
        Ok(Watch {
            process: crate::signals::process(),
            shared,
            thread: Some(thread),
        })
    }

    /// What ends its calls.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.shared.clone())
    }

    /// From now on.
    pub fn begin(&self, limit: Duration) {
        let mut state = self.shared.lock();
        (state.running, state.limit) = (true, limit);
        state.calls += 1;
        // Else it looks at this in time anyhow: waking it takes longer than a call.
        let wake = state.asleep || state.stopped;
        drop(state);
        if wake {
            self.shared.changed.notify_one();
        }
    }

    /// The call is over. Nothing comes any more, unless it was sent before.
    pub fn end(&self) {
        self.shared.lock().running = false;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // In a child of fork(2) there is no such thread, and it may have had the lock.
        if self.process != crate::signals::process() {
            std::mem::forget(self.thread.take());
            return;
        }
        self.shared.lock().over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// The word that says that time is over.
pub struct Marker(*const AtomicBool);

// SAFETY: an atomic, in a box that outlives who watches it.
unsafe impl Send for Marker {}

impl Marker {
    /// Of an instance that outlives who has it.
    pub fn new(word: &AtomicBool) -> Marker {
        Marker(word)
    }

    pub fn mark(&self) {
        // SAFETY: as above.
        unsafe { (*self.0).store(true, Ordering::Relaxed) };
    }
}

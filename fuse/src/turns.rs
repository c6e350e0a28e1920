//! Whose turn it is to take requests.
//!
//! The host's kernel hands requests to waiting threads one after another. The
//! Linux inside has one processor, which is several times faster for a thread
//! that calls again and again than for several that alternate. So only one waits
//! for requests, and the others are set aside, until that one is held up (by a
//! disk) and somebody else must take what comes meanwhile.
//!
//! While requests come one upon another, whoever waits for the next does not sleep:
//! to be woken takes longer than most requests do, above all in a virtual machine.
//! It asks again and again (O_NONBLOCK), until nothing has come for a while, or
//! somebody else wants the processor.

use crate::node::locked;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a request may take before another thread waits for the next.
const PATIENCE: Duration = Duration::from_millis(1);
/// So many times nothing happened: there is nothing to watch.
const QUIET: u32 = 20;
/// So many times nothing happened: whoever waits may sleep.
const DROWSY: u32 = 2;
/// How long nobody asks again and again when somebody else wanted the processor.
const MODESTY: u32 = 100;

#[derive(Default)]
struct State {
    /// Threads that have served and are not set aside.
    active: usize,
    /// Those of them that are at a request.
    busy: usize,
    aside: usize,
    /// How many of those are to go on.
    called: usize,
    /// Requests that were done.
    done: u64,
    /// The watcher is awake.
    watching: bool,
    over: bool,
}

#[derive(Default)]
pub struct Turns {
    state: Mutex<State>,
    go_on: Condvar,
    watch: Condvar,
    /// Where requests come from.
    mount: OnceLock<OwnedFd>,
}

/// A thread that serves; the end of one means the end of the mount.
struct Member(Arc<Turns>);

impl Drop for Member {
    fn drop(&mut self) {
        self.0.end();
    }
}

thread_local! {
    static MEMBER: std::cell::OnceCell<Member> = const { std::cell::OnceCell::new() };
}

/// A request under way.
pub struct Turn<'t>(&'t Turns);

impl Turns {
    /// With a thread that watches over it, and ends with the mount.
    pub fn new() -> std::io::Result<Arc<Turns>> {
        let turns = Arc::new(Turns::default());
        let watched = turns.clone();
        let thread = std::thread::Builder::new().name("watch".into());
        thread.spawn(move || watched.watch())?;
        Ok(turns)
    }

    /// This thread has a request, until what is returned is dropped.
    pub fn take(self: &Arc<Self>) -> Turn<'_> {
        let mut state = locked(&self.state);
        MEMBER.with(|member| {
            member.get_or_init(|| {
                state.active += 1;
                Member(self.clone())
            });
        });
        state.busy += 1;
        let asleep = !std::mem::replace(&mut state.watching, true);
        drop(state);
        if asleep {
            self.watch.notify_all();
        }
        Turn(self)
    }

    /// There are no more requests: all threads go on, and end.
    pub fn end(&self) {
        locked(&self.state).over = true;
        self.go_on.notify_all();
        self.watch.notify_all();
    }

    /// From now on requests come from there.
    pub fn begin(&self, mount: OwnedFd) {
        let _ = self.mount.set(mount);
    }

    /// Somebody waits for a request to be taken.
    pub fn is_wanted(&self) -> bool {
        let Some(mount) = self.mount.get() else {
            return false;
        };
        let mut poll = libc::pollfd {
            fd: mount.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one structure.
        unsafe { libc::poll(&raw mut poll, 1, 0) != 0 }
    }

    fn set_asking(&self, on: bool) {
        if let Some(mount) = self.mount.get() {
            let flags = libc::O_RDWR | if on { libc::O_NONBLOCK } else { 0 };
            // SAFETY: a descriptor that is open.
            unsafe { libc::fcntl(mount.as_raw_fd(), libc::F_SETFL, flags) };
        }
    }

    /// Calls another thread whenever all that could take a request are held up.
    fn watch(&self) {
        let mut state = locked(&self.state);
        let (mut before, mut quiet) = (0, 0);
        // With one processor, the answer's reader needs it.
        let has_others = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
        let mut asking: Option<Asking> = None;
        let mut modesty = 0u32;
        while !state.over {
            modesty = match asking.as_mut().is_some_and(Asking::is_disturbed) {
                true => MODESTY,
                false => modesty.saturating_sub(1),
            };
            let ask = has_others && state.watching && quiet < DROWSY && modesty == 0;
            if ask != asking.is_some() {
                asking = ask.then(Asking::begin);
                self.set_asking(ask);
            }
            if quiet >= QUIET {
                quiet = 0;
                state.watching = false;
                let woken = self.watch.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let waited = self.watch.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            if state.done != before {
                (before, quiet) = (state.done, 0);
            } else if state.busy == 0 {
                quiet += 1;
            } else if state.busy == state.active && state.aside > state.called {
                state.called += 1;
                self.go_on.notify_all();
            }
        }
        self.set_asking(false);
    }
}

/// Whether the thread that asks again and again has a processor to itself.
struct Asking {
    since: Instant,
    used: Duration,
}

impl Asking {
    /// What is looked at at once.
    const WINDOW: Duration = Duration::from_millis(8);

    fn begin() -> Asking {
        Asking {
            since: Instant::now(),
            used: processor_time(),
        }
    }

    /// In the last window it was less than three quarters of a processor.
    fn is_disturbed(&mut self) -> bool {
        let passed = self.since.elapsed();
        if passed < Asking::WINDOW {
            return false;
        }
        let used = processor_time() - self.used;
        *self = Asking::begin();
        used < passed * 3 / 4
    }
}

/// Of all threads of this process.
fn processor_time() -> Duration {
    // SAFETY: plain data, and a pointer to it.
    unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

impl Drop for Turn<'_> {
    /// Sets this thread aside if another waits for requests already.
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.busy -= 1;
        state.done += 1;
        let waiting = state.active - state.busy - 1;
        if waiting == 0 || state.over {
            return;
        }
        state.active -= 1;
        state.aside += 1;
        while state.called == 0 && !state.over {
            let waited = self.0.go_on.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.called = state.called.saturating_sub(1);
        state.aside -= 1;
        state.active += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    type Job = Box<dyn FnOnce() + Send>;

    #[test]
    fn a_request_that_is_held_up_holds_up_no_other_and_all_threads_end() {
        let turns = Turns::new().expect("a thread");
        let (queue, requests) = mpsc::channel::<Job>();
        let requests = Arc::new(Mutex::new(requests));
        let serve = |_| {
            let (turns, requests) = (turns.clone(), requests.clone());
            std::thread::spawn(move || loop {
                let request = locked(&requests).recv();
                let Ok(request) = request else { return };
                let _turn = turns.take();
                request();
            })
        };
        let threads: Vec<_> = (0..3).map(serve).collect();
        let (said, heard) = mpsc::channel();
        for _ in 0..20 {
            let said = said.clone();
            let say = move || said.send(()).expect("heard");
            queue.send(Box::new(say)).expect("a thread");
            heard.recv().expect("said");
        }
        // This one ends only when a later one has been served.
        let (release, held_up) = mpsc::channel();
        queue
            .send(Box::new(move || held_up.recv().expect("released")))
            .expect("a thread");
        queue
            .send(Box::new(move || release.send(()).expect("still there")))
            .expect("a thread");
        drop(queue);
        for thread in threads {
            thread.join().expect("it ended");
        }
    }
}

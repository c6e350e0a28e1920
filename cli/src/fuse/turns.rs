//! Whose turn it is to take requests.
//!
//! The host's kernel hands requests to waiting threads one after another. The
//! Linux inside has one processor, which is several times faster for a thread
//! that calls again and again than for several that alternate. So only one waits
//! for requests, and the others are set aside, until that one is held up (by a
//! disk) and somebody else must take what comes meanwhile.

use super::node::locked;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a request may take before another thread waits for the next.
const PATIENCE: Duration = Duration::from_millis(1);
/// So many times nothing happened: there is nothing to watch.
const QUIET: u32 = 20;

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
}

/// A thread that serves; the end of one means the end of the mount.
struct Member(Arc<Turns>);

impl Drop for Member {
    fn drop(&mut self) {
        let mut state = locked(&self.0.state);
        state.over = true;
        drop(state);
        self.0.go_on.notify_all();
        self.0.watch.notify_all();
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

    /// Calls another thread whenever all that could take a request are held up.
    fn watch(&self) {
        let mut state = locked(&self.state);
        let (mut before, mut quiet) = (0, 0);
        while !state.over {
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

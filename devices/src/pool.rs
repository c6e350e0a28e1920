//! The threads that wait for the host in a device's stead, so that no virtual CPU does.
//! They start with the first request that needs one.

use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;

struct State<J> {
    jobs: VecDeque<J>,
    running: usize,
    waiting: usize,
    stopping: bool,
    threads: Vec<JoinHandle<()>>,
}

struct Shared<J> {
    state: Mutex<State<J>>,
    work: Condvar,
    idle: Condvar,
    handle: Box<dyn Fn(J) + Send + Sync>,
    /// What its threads are called.
    name: &'static str,
}

/// At most `limit` threads that handle jobs.
pub struct Pool<J: Send + 'static> {
    shared: Arc<Shared<J>>,
    limit: usize,
}

impl<J: Send + 'static> Pool<J> {
    pub fn new(
        name: &'static str,
        limit: usize,
        handle: impl Fn(J) + Send + Sync + 'static,
    ) -> Self {
        let state = State {
            jobs: VecDeque::new(),
            running: 0,
            waiting: 0,
            stopping: false,
            threads: Vec::new(),
        };
        let shared = Shared {
            state: Mutex::new(state),
            work: Condvar::new(),
            idle: Condvar::new(),
            handle: Box::new(handle),
            name,
        };
        Self {
            shared: Arc::new(shared),
            limit: limit.max(1),
        }
    }

    /// Have at least one thread, without which nothing can be submitted.
    pub fn start(&self) -> std::io::Result<()> {
        let mut state = self.shared.lock();
        if state.threads.is_empty() {
            state.threads.push(start(&self.shared)?);
        }
        Ok(())
    }

    /// Have these jobs done soon, and empty the list. Never waits.
    pub fn submit(&self, jobs: &mut Vec<J>) {
        if jobs.is_empty() {
            return;
        }
        let count = jobs.len();
        let mut state = self.shared.lock();
        state.jobs.extend(jobs.drain(..));
        let asleep = state.waiting;
        // Those that sleep may have been woken for earlier jobs, still queued.
        let mut wanted = state.jobs.len().saturating_sub(asleep);
        while wanted > 0 && state.threads.len() < self.limit {
            let Ok(thread) = start(&self.shared) else {
                break;
            };
            state.threads.push(thread);
            wanted -= 1;
        }
        drop(state);
        for _ in 0..count.min(asleep) {
            self.shared.work.notify_one();
        }
    }

    /// Wait until every submitted job is done.
    pub fn drain(&self) {
        let mut state = self.shared.lock();
        while !state.jobs.is_empty() || state.running > 0 {
            state = wait(&self.shared.idle, state);
        }
    }

    /// Do what was submitted, then end the threads. New ones start when needed.
    pub fn stop(&self) {
        let threads = {
            let mut state = self.shared.lock();
            state.stopping = true;
            std::mem::take(&mut state.threads)
        };
        self.shared.work.notify_all();
        for thread in threads {
            thread.join().ok();
        }
        self.shared.lock().stopping = false;
    }
}

impl<J: Send + 'static> Drop for Pool<J> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<J> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.running += 1;
                drop(state);
                // Or nobody would count it as done.
                catch_unwind(AssertUnwindSafe(|| (self.handle)(job))).ok();
                state = self.lock();
                state.running -= 1;
                if state.running == 0 && state.jobs.is_empty() {
                    self.idle.notify_all();
                }
            } else if state.stopping {
                return;
            } else {
                state.waiting += 1;
                state = wait(&self.work, state);
                state.waiting -= 1;
            }
        }
    }
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(|e| e.into_inner())
}

fn start<J: Send + 'static>(shared: &Arc<Shared<J>>) -> std::io::Result<JoinHandle<()>> {
    let shared = shared.clone();
    let name = shared.name;
    tane_net::thread::spawn(name, move || shared.serve())
}

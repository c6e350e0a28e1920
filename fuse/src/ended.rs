//! A thread whose end is waited for by several, each as long as it likes.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What it ended with: an errno, if there is one, and words.
type Outcome = Result<(), (Option<i32>, String)>;

#[derive(Default)]
struct State {
    outcome: Mutex<Option<Outcome>>,
    over: Condvar,
}

/// How a thread ended.
pub struct Ended(Arc<State>);

/// Tells it, also if the thread panics.
struct Teller(Arc<State>, Outcome);

impl Drop for Teller {
    fn drop(&mut self) {
        let outcome = std::mem::replace(&mut self.1, Ok(()));
        *self
            .0
            .outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.0.over.notify_all();
    }
}

impl Ended {
    /// Of a new thread, which does this.
    ///
    /// Errors: EAGAIN if there can be no more threads.
    pub fn of(
        name: &str,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Ended> {
        let state = Arc::<State>::default();
        let told = state.clone();
        let thread = std::thread::Builder::new().name(name.into());
        thread.spawn(move || {
            let panicked = Err((None, "a thread that served it has panicked".to_owned()));
            let mut teller = Teller(told, panicked);
            teller.1 = work().map_err(|e| (e.raw_os_error(), e.to_string()));
        })?;
        Ok(Ended(state))
    }

    pub fn is_over(&self) -> bool {
        let outcome = self.0.outcome.lock();
        outcome.unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Wait for it; whether it came in this time.
    ///
    /// Errors: the thread's.
    pub fn within(&self, limit: Duration) -> io::Result<bool> {
        let until = Instant::now().checked_add(limit);
        let mut outcome = self
            .0
            .outcome
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*outcome {
                Some(Ok(())) => return Ok(true),
                Some(Err((Some(errno), _))) => return Err(io::Error::from_raw_os_error(*errno)),
                Some(Err((None, text))) => return Err(io::Error::other(text.clone())),
                None => {}
            }
            let left = until.map_or(Duration::MAX, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                return Ok(false);
            }
            // The longest that every host takes.
            let left = left.min(Duration::from_secs(86400));
            let woken = self.0.over.wait_timeout(outcome, left);
            outcome = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

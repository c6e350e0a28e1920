//! The wait for somebody else's locks.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nobody tells when a lock is free that may be of two kinds: it is tried this often.
const PAUSE: Duration = Duration::from_millis(50);
/// After which it is said what is waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// For how long somebody waits for other programs, and what ends that.
#[derive(Clone)]
pub struct LockWait {
    /// `Duration::MAX`: for ever.
    pub limit: Duration,
    /// Whether the wait was given up.
    pub interrupted: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Told after a second what it waits for.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
}

/// A wait that has begun.
pub(crate) struct Waiting<'p> {
    lock_wait: Option<&'p LockWait>,
    since: Instant,
    said: bool,
}

impl<'p> Waiting<'p> {
    pub fn new(lock_wait: Option<&'p LockWait>) -> Self {
        Waiting {
            lock_wait,
            since: Instant::now(),
            said: false,
        }
    }

    /// Sleep, before the next attempt; false: it has been long enough. `what` is waited
    /// for, and `path` is what for.
    pub fn once_more(&mut self, path: &Path, what: impl FnOnce() -> String) -> io::Result<bool> {
        let waited = self.since.elapsed();
        let Some(wait) = self.lock_wait.filter(|wait| waited < wait.limit) else {
            return Ok(false);
        };
        if waited >= SILENCE && !self.said {
            self.said = true;
            (wait.say)(&what());
        }
        if (wait.interrupted)() {
            let text = format!("{}: the wait for it was given up", path.display());
            return Err(io::Error::new(io::ErrorKind::Interrupted, text));
        }
        std::thread::sleep(PAUSE.min(wait.limit - waited));
        Ok(true)
    }
}

impl std::fmt::Debug for LockWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockWait({:?})", self.limit)
    }
}

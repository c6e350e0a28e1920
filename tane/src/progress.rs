//! Whether Linux gets anywhere with an image that it is being shown: a damaged one can
//! have it go round in circles for ever.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Calls that have begun, and those that have ended.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Volumes are looked for, or something is mounted or unmounted, as long as this is
/// there.
pub(crate) struct Step(());

impl Step {
    pub fn begin() -> Step {
        BEGUN.fetch_add(1, Relaxed);
        Step(())
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        ENDED.fetch_add(1, Relaxed);
    }
}

/// Watches what the kernels of this process do with the images that they are shown.
/// It interferes with nothing: whoever asks decides what to do.
pub struct Progress {
    seen: [u64; 3],
    since: Instant,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// Watch from now on.
    pub fn new() -> Self {
        Self {
            seen: [0; 3],
            since: Instant::now(),
        }
    }

    /// For how long volumes have been looked for, or something has been mounted or
    /// unmounted, while no such call came back and no disk was asked for anything, as
    /// far as this was called in between. Zero if nothing of the kind goes on.
    pub fn stuck(&mut self) -> Duration {
        let ended = ENDED.load(Relaxed);
        let now = [BEGUN.load(Relaxed), ended, tane_devices::requests()];
        if now != self.seen || now[0] == ended {
            self.seen = now;
            self.since = Instant::now();
        }
        self.since.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_back_is_stuck_and_what_does_is_not() {
        let mut progress = Progress::new();
        let step = Step::begin();
        progress.stuck();
        std::thread::sleep(Duration::from_millis(20));
        assert!(progress.stuck() >= Duration::from_millis(20));
        // Another one begins and ends: the kernel answers.
        drop(Step::begin());
        progress.stuck();
        assert_eq!(progress.seen[..2], [2, 1]);
        drop(step);
        progress.stuck();
        assert_eq!(progress.seen[0], progress.seen[1]);
    }
}

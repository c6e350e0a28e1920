//! What a disk has done so far.

use crate::request::Kind;
use std::sync::atomic::{AtomicU64, Ordering};

/// Requests of a block device, counted as they are taken from a queue. For
/// benchmarks and tests: read them with `Ordering::Relaxed` at any time.
#[derive(Debug, Default)]
pub struct Counters {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub flushes: AtomicU64,
    pub discards: AtomicU64,
    pub write_zeroes: AtomicU64,
    /// Answered inside the notification.
    pub at_once: AtomicU64,
    /// Handed to a thread.
    pub handed_over: AtomicU64,
    /// Answered with an error, or not answerable.
    pub errors: AtomicU64,
}

impl Counters {
    pub(crate) fn request(&self, kind: Kind) {
        count(match kind {
            Kind::Read => &self.reads,
            Kind::Write => &self.writes,
            Kind::Flush => &self.flushes,
            Kind::Discard => &self.discards,
            Kind::WriteZeroes => &self.write_zeroes,
            Kind::Id | Kind::Unknown => return,
        });
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

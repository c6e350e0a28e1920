//! What a network device has done.

use std::sync::atomic::{AtomicU64, Ordering};

/// Packets of a network device. For benchmarks and tests: read them with
/// `Ordering::Relaxed` at any time.
#[derive(Debug, Default)]
pub struct NetCounters {
    /// That the wire took from the driver; a large segment is one.
    pub sent: AtomicU64,
    /// That the wire had no taker for.
    pub lost: AtomicU64,
    /// That the wire put off for a moment.
    pub put_off: AtomicU64,
    /// That the driver got; segments are counted as it got them.
    pub received: AtomicU64,
    /// That there was no buffer for, or none large enough.
    pub no_room: AtomicU64,
    /// For somebody else's address.
    pub filtered: AtomicU64,
    /// That the driver or the wire got wrong.
    pub malformed: AtomicU64,
    /// Work on packets that the receiver does not take over: segments that were cut,
    /// checksums that were computed.
    pub worked_on: AtomicU64,
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

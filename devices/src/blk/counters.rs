//! What a disk has done so far.

use super::request::Kind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Those of all disks of this process.
static ALL: Mutex<Vec<Weak<Counters>>> = Mutex::new(Vec::new());

/// Requests that all disks of this process have taken so far, and disks: a number
/// that changes as long as any of them is used.
pub fn requests() -> u64 {
    let mut all = ALL.lock().unwrap_or_else(|e| e.into_inner());
    all.retain(|counters| counters.strong_count() > 0);
    let each = all.iter().filter_map(Weak::upgrade);
    each.fold(all.len() as u64, |sum, counters| {
        sum.wrapping_add(counters.requests())
    })
}

/// Requests of a block device, counted as they are taken from a queue. For
/// benchmarks and tests: read them with `Ordering::Relaxed` at any time.
#[derive(Debug, Default)]
pub struct Counters {
    /// VIRTIO_BLK_T_IN.
    pub reads: AtomicU64,
    /// VIRTIO_BLK_T_OUT.
    pub writes: AtomicU64,
    /// VIRTIO_BLK_T_FLUSH.
    pub flushes: AtomicU64,
    /// VIRTIO_BLK_T_DISCARD.
    pub discards: AtomicU64,
    /// VIRTIO_BLK_T_WRITE_ZEROES.
    pub write_zeroes: AtomicU64,
    /// Answered inside the notification.
    pub at_once: AtomicU64,
    /// Handed to a thread.
    pub handed_over: AtomicU64,
    /// Answered with an error, or not answerable.
    pub errors: AtomicU64,
}

impl Counters {
    /// Known to [`requests`] as long as they are there.
    pub(crate) fn known() -> Arc<Counters> {
        let counters = Arc::<Counters>::default();
        let mut all = ALL.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|counters| counters.strong_count() > 0);
        all.push(Arc::downgrade(&counters));
        counters
    }

    fn requests(&self) -> u64 {
        let kinds = [
            &self.reads,
            &self.writes,
            &self.flushes,
            &self.discards,
            &self.write_zeroes,
        ];
        let counts = kinds.map(|count| count.load(Ordering::Relaxed));
        counts.into_iter().fold(0, u64::wrapping_add)
    }

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

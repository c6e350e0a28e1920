//! What was opened when, of a kernel that goes back to checkpoints: a descriptor of a time
//! that was undone is none any more, and its number may be another's.
//!
//! Time is counted in the kernel's moments ([`tane_host::Kernel::moment`]).

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// The number of a moment in a kernel's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age(pub u64);

/// A descriptor that was closed while there were checkpoints.
struct Closed {
    number: i32,
    opened: Age,
    closed: Age,
}

#[derive(Default)]
pub(crate) struct Ages {
    /// In order, and apart.
    undone: RwLock<Vec<Range<u64>>>,
    checkpoints: AtomicU64,
    closed: Mutex<Vec<Closed>>,
}

impl Ages {
    pub fn is_undone(&self, age: Age) -> bool {
        let undone = self.undone.read().unwrap_or_else(PoisonError::into_inner);
        undone.iter().any(|range| range.contains(&age.0))
    }

    /// There is one more.
    pub fn begin_checkpoint(&self) {
        self.checkpoints.fetch_add(1, Ordering::SeqCst);
    }

    /// There is one less.
    pub fn end_checkpoint(&self) {
        if self.checkpoints.fetch_sub(1, Ordering::SeqCst) == 1 {
            let closed = self.closed.lock();
            closed.unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    pub fn note_closed(&self, number: i32, opened: Age, closed: Age) {
        if self.checkpoints.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut all = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Closed {
            number,
            opened,
            closed,
        });
    }

    /// The kernel has gone back to the end of the moment `then`, and `now` ends.
    pub fn go_back(&self, then: u64, now: u64) {
        let mut undone = self.undone.write().unwrap_or_else(PoisonError::into_inner);
        undone.retain(|range| range.start <= then);
        undone.push(then + 1..now + 1);
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.retain(|fd| fd.opened.0 <= then);
    }

    /// What had been open at the end of `then` and was closed since, until the kernel went
    /// back to it: open again, and nobody's.
    pub fn open_again(&self, then: u64) -> Vec<i32> {
        let undone = self.undone.read().unwrap_or_else(PoisonError::into_inner);
        let since = undone.iter().find(|range| range.start == then + 1);
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |fd: &&Closed| since.is_some_and(|range| range.contains(&fd.closed.0));
        closed.iter().filter(is_open).map(|fd| fd.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_opened_between_a_checkpoint_and_the_way_back_is_undone() {
        let ages = Ages::default();
        let (before, then) = (Age(0), 0);
        ages.begin_checkpoint();
        ages.note_closed(3, before, Age(1));
        for now in 1..4 {
            ages.note_closed(4, Age(now), Age(now));
            ages.go_back(then, now);
            assert!((1..=now).all(|age| ages.is_undone(Age(age))));
            assert!(!ages.is_undone(before) && !ages.is_undone(Age(now + 1)));
            assert_eq!(ages.open_again(then), [3]);
        }
        assert_eq!(ages.undone.read().expect("its ranges").len(), 1);
    }

    #[test]
    fn what_was_closed_before_a_checkpoint_is_not_open_again_there() {
        let ages = Ages::default();
        ages.begin_checkpoint();
        ages.note_closed(3, Age(0), Age(1));
        ages.begin_checkpoint();
        ages.go_back(1, 2);
        assert!(ages.open_again(1).is_empty());
        ages.go_back(0, 3);
        assert_eq!(ages.open_again(0), [3]);
    }
}

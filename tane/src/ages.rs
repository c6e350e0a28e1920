//! What was opened when, of a kernel that goes back to checkpoints: a descriptor of a time
//! that was undone is none any more, and its number may be another's.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// A moment in a kernel's life. Moments are numbered; a new one begins with each checkpoint
/// and each way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age(u64);

/// A descriptor that was closed while there were checkpoints.
struct Closed {
    number: i32,
    opened: Age,
    closed: Age,
}

#[derive(Default)]
pub(crate) struct Ages {
    now: AtomicU64,
    /// Anything is in `undone`.
    any: AtomicBool,
    /// In order, and apart.
    undone: RwLock<Vec<Range<u64>>>,
    checkpoints: AtomicU64,
    closed: Mutex<Vec<Closed>>,
}

impl Ages {
    /// To be asked before the call that opens something: if the kernel goes back while it
    /// is under way, what it gives counts as undone.
    #[inline]
    pub fn now(&self) -> Age {
        Age(self.now.load(Ordering::SeqCst))
    }

    #[inline]
    pub fn is_undone(&self, age: Age) -> bool {
        self.any.load(Ordering::Relaxed) && self.is_in(age)
    }

    fn is_in(&self, age: Age) -> bool {
        let undone = self.undone.read().unwrap_or_else(PoisonError::into_inner);
        undone.iter().any(|range| range.contains(&age.0))
    }

    /// A checkpoint is about to be made, or gone back to: the last moment before that.
    pub fn next(&self) -> Age {
        Age(self.now.fetch_add(1, Ordering::SeqCst))
    }

    /// There is one more. What is closed from now on, is closed after it was made.
    pub fn begin_checkpoint(&self) -> Age {
        self.checkpoints.fetch_add(1, Ordering::SeqCst);
        Age(self.next().0 + 1)
    }

    /// There is one less.
    pub fn end_checkpoint(&self) {
        if self.checkpoints.fetch_sub(1, Ordering::SeqCst) == 1 {
            let closed = self.closed.lock();
            closed.unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// It was closed in the moment that had begun before that. If another one has begun
    /// since, nobody knows in which: better that it stays open in the kernel than that
    /// somebody else's is closed.
    pub fn note_closed(&self, number: i32, opened: Age, closed: Age) {
        if self.checkpoints.load(Ordering::Relaxed) == 0 || self.now() != closed {
            return;
        }
        let mut all = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Closed {
            number,
            opened,
            closed,
        });
    }

    /// The kernel has gone back to a checkpoint behind `then`, that was there by `made`; it
    /// began to after `begun`. What had been open there, and was closed since, is open
    /// again, and nobody's.
    pub fn go_back(&self, then: Age, made: Age, begun: Age) -> Vec<i32> {
        let start = then.0 + 1;
        let mut undone = self.undone.write().unwrap_or_else(PoisonError::into_inner);
        let end = self.next().0 + 1;
        undone.retain(|range| range.start < start);
        undone.push(start..end);
        self.any.store(true, Ordering::SeqCst);
        let mut closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        closed.retain(|fd| fd.opened <= then);
        let again = closed.iter();
        let again = again.filter(|fd| (made..=begun).contains(&fd.closed));
        again.map(|fd| fd.number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_opened_between_a_checkpoint_and_the_way_back_is_undone() {
        let ages = Ages::default();
        let before = ages.now();
        let then = ages.next();
        let made = ages.begin_checkpoint();
        let (mut between, mut closed) = (Vec::new(), Vec::new());
        ages.note_closed(3, before, ages.now());
        // Nobody knows when.
        ages.note_closed(5, before, then);
        for _ in 0..3 {
            between.push(ages.now());
            ages.note_closed(4, ages.now(), ages.now());
            let begun = ages.next();
            closed = ages.go_back(then, made, begun);
        }
        assert!(between.iter().all(|age| ages.is_undone(*age)));
        assert!(!ages.is_undone(before) && !ages.is_undone(ages.now()));
        assert_eq!(closed, [3]);
        assert_eq!(ages.undone.read().expect("its ranges").len(), 1);
    }
}

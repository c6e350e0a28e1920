//! What was opened when, of a kernel that goes back to checkpoints: a descriptor of a time
//! that was undone is none any more, and its number may be another's. And what was closed
//! when: it is open again at a checkpoint from before, and nobody's.
//!
//! Time is counted in the kernel's moments ([`tane_host::Kernel::moment`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A moment in which something was opened that is there still.
#[derive(Debug)]
struct Moment {
    number: u64,
    undone: AtomicBool,
}

/// When something was opened. None: before the first checkpoint, or in a kernel that does not
/// go back; that is never undone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Age(Option<Arc<Moment>>);

impl Age {
    #[inline]
    pub fn is_undone(&self) -> bool {
        let undone = |moment: &Arc<Moment>| moment.undone.load(Ordering::SeqCst);
        self.0.as_ref().is_some_and(undone)
    }

    pub fn number(&self) -> u64 {
        self.0.as_ref().map_or(0, |moment| moment.number)
    }
}

/// What one call gives and another takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Descriptor(i32),
    /// Where, and how long.
    Mapping(u64, u64),
}

impl Given {
    /// The call that takes it back.
    pub fn back(self) -> (i64, [u64; 6]) {
        match self {
            Given::Descriptor(number) => (libc::SYS_close, [number as u64, 0, 0, 0, 0, 0]),
            Given::Mapping(at, len) => (libc::SYS_munmap, [at, len, 0, 0, 0, 0]),
        }
    }
}

/// What a checkpoint has, and was taken back since.
#[derive(PartialEq)]
struct Closed {
    what: Given,
    opened: u64,
    closed: u64,
}

impl Closed {
    /// Whether the checkpoint that ended this moment has it.
    fn is_open_at(&self, then: u64) -> bool {
        (self.opened..self.closed).contains(&then)
    }
}

#[derive(Default)]
struct State {
    /// Those that are not undone, in order. As many as there are ages of what is open, and
    /// some that are forgotten when the next one comes.
    moments: Vec<Arc<Moment>>,
    /// The newest one that is undone.
    passed: u64,
    /// The moments that ended with the checkpoints that there are.
    checkpoints: Vec<u64>,
    closed: Vec<Closed>,
}

impl State {
    fn age(&mut self, now: u64) -> Option<Age> {
        if now == 0 {
            return Some(Age::default());
        }
        match self.moments.last() {
            Some(last) if last.number == now => return Some(Age(Some(last.clone()))),
            Some(last) if last.number > now => return None,
            _ if now <= self.passed => return None,
            _ => {}
        }
        self.moments.retain(|moment| Arc::strong_count(moment) > 1);
        let moment = Arc::new(Moment {
            number: now,
            undone: AtomicBool::new(false),
        });
        self.moments.push(moment.clone());
        Some(Age(Some(moment)))
    }
}

#[derive(Default)]
pub(crate) struct Ages(Mutex<State>);

impl Ages {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The age of what is opened in this moment. None: it is over.
    pub fn age(&self, now: u64) -> Option<Age> {
        match now {
            0 => Some(Age::default()),
            _ => self.state().age(now),
        }
    }

    /// Whether what was opened in this moment, and is open, is there.
    pub fn has(&self, opened: u64) -> bool {
        let state = self.state();
        let found = state.moments.binary_search_by_key(&opened, |m| m.number);
        opened == 0 || found.is_ok()
    }

    /// There is one more. The moment that it ends is not over yet.
    pub fn begin_checkpoint(&self, then: u64) {
        self.state().checkpoints.push(then);
    }

    /// There is one less: what only that one has comes back no more.
    pub fn end_checkpoint(&self, then: u64) {
        let mut state = self.state();
        let State {
            checkpoints,
            closed,
            ..
        } = &mut *state;
        checkpoints.retain(|checkpoint| *checkpoint != then);
        closed.retain(|fd| checkpoints.iter().any(|then| fd.is_open_at(*then)));
    }

    /// Something is about to be taken back in the moment `now`: the age of that. It is said
    /// before it is done, as the kernel may go back as soon as it is done. None: that moment
    /// is over.
    pub fn begin_closing(&self, what: Given, opened: &Age, now: u64) -> Option<Age> {
        // No checkpoint ends before the moment 0.
        if now == 0 {
            return Some(Age::default());
        }
        let mut state = self.state();
        let age = state.age(now)?;
        let closed = Closed {
            what,
            opened: opened.number(),
            closed: now,
        };
        if state
            .checkpoints
            .iter()
            .any(|then| closed.is_open_at(*then))
        {
            state.closed.push(closed);
        }
        Some(age)
    }

    /// It was not done, as that moment is over: whether it is still to be done. Whoever went
    /// back to before that moment has done it.
    pub fn is_still_open(&self, what: Given, opened: &Age, closing: &Age) -> bool {
        let mut state = self.state();
        if closing.is_undone() {
            return false;
        }
        let not = Closed {
            what,
            opened: opened.number(),
            closed: closing.number(),
        };
        state.closed.retain(|closed| *closed != not);
        true
    }

    /// The kernel has gone back to the end of the moment `then`, and `now` ends. What is open
    /// again, and nobody's.
    pub fn go_back(&self, then: u64, now: u64) -> Vec<Given> {
        let mut state = self.state();
        let kept = state.moments.partition_point(|m| m.number <= then);
        for moment in state.moments.drain(kept..) {
            moment.undone.store(true, Ordering::SeqCst);
        }
        state.passed = now;
        state.checkpoints.retain(|checkpoint| *checkpoint <= then);
        let State {
            checkpoints,
            closed,
            ..
        } = &mut *state;
        closed.retain(|fd| checkpoints.iter().any(|then| fd.is_open_at(*then)));
        let open = closed.iter().filter(|fd| fd.is_open_at(then));
        open.map(|fd| fd.what).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fd(number: i32) -> Given {
        Given::Descriptor(number)
    }

    fn close(ages: &Ages, number: i32, opened: &Age, now: u64) {
        let closing = ages.begin_closing(fd(number), opened, now);
        closing.expect("a moment that is not over");
    }

    #[test]
    fn what_was_opened_between_a_checkpoint_and_the_way_back_is_undone() {
        let ages = Ages::default();
        let before = ages.age(0).expect("a moment");
        ages.begin_checkpoint(0);
        close(&ages, 3, &before, 1);
        for now in 1..4 {
            let since = ages.age(now).expect("a moment");
            close(&ages, 4, &since, now);
            assert_eq!(ages.go_back(0, now), [fd(3)]);
            assert!(since.is_undone() && !ages.has(now));
            assert!(!before.is_undone() && ages.has(0));
            // Whoever has read the number of the moment that is over.
            assert!(ages.age(now).is_none());
            assert!(!ages.age(now + 1).expect("a moment").is_undone());
        }
    }

    #[test]
    fn what_was_closed_before_a_checkpoint_is_not_open_again_there() {
        let ages = Ages::default();
        ages.begin_checkpoint(0);
        close(&ages, 3, &Age::default(), 1);
        ages.begin_checkpoint(1);
        assert!(ages.go_back(1, 2).is_empty());
        assert_eq!(ages.go_back(0, 3), [fd(3)]);
    }

    /// As many rounds as anybody likes, each with a checkpoint of its own.
    #[test]
    fn no_more_is_remembered_than_what_is_open_and_what_checkpoints_have() {
        let ages = Ages::default();
        ages.begin_checkpoint(0);
        let mut open = Vec::new();
        for round in 0..100 {
            let now = 2 * round + 1;
            let age = ages.age(now).expect("a moment");
            ages.begin_checkpoint(now);
            close(&ages, 3, &age, now + 1);
            assert_eq!(ages.go_back(now, now + 1), [fd(3)]);
            ages.end_checkpoint(now);
            if round % 50 == 0 {
                open.push(age);
            }
        }
        let state = ages.state();
        assert_eq!((state.checkpoints.len(), state.closed.len()), (1, 0));
        assert!(state.moments.len() <= open.len() + 1);
        assert!(!open.iter().any(Age::is_undone));
    }

    /// By a thread that was about to close in the moment that ended.
    #[test]
    fn a_close_that_came_too_late_is_done_by_who_went_back() {
        let ages = Ages::default();
        let opened = Age::default();
        ages.begin_checkpoint(0);
        let closing = ages.begin_closing(fd(3), &opened, 1).expect("a moment");
        assert_eq!(ages.go_back(0, 1), [fd(3)]);
        assert!(!ages.is_still_open(fd(3), &opened, &closing));
        // And when the kernel goes back once more.
        assert_eq!(ages.go_back(0, 2), [fd(3)]);
    }

    #[test]
    fn a_close_that_a_checkpoint_came_before_is_still_to_be_done() {
        let ages = Ages::default();
        let opened = Age::default();
        ages.begin_checkpoint(0);
        let closing = ages.begin_closing(fd(3), &opened, 1).expect("a moment");
        ages.begin_checkpoint(1);
        assert!(ages.is_still_open(fd(3), &opened, &closing));
        close(&ages, 3, &opened, 2);
        assert_eq!(ages.go_back(1, 2), [fd(3)]);
    }
}

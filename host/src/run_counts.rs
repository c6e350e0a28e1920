//! What programs asked of a kernel, counted where their threads come in.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Numbers from here on, and what are none, are counted as this one.
const OTHERS: usize = 511;
/// Linux's first errno, as a result.
const ERRORS: std::ops::RangeInclusive<i64> = -4095..=-1;

/// How often one system call was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCount {
    /// x86-64's; 511 for numbers from there on.
    pub number: u32,
    /// Those that came back, and those that end a thread or the program.
    pub calls: u64,
    /// Those of them that failed.
    pub errors: u64,
    /// From coming in to going out again, what they waited included; 0 of those that end.
    pub nanoseconds: u64,
}

/// What programs asked of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramCounts {
    /// By number; none that was not made.
    pub calls: Vec<CallCount>,
    /// Calls that came by a signal of the host's, not by the gate; since the beginning.
    pub calls_by_signal: u64,
    /// Traps that only whoever rewrote the program's code is concerned with; since the beginning.
    pub rewriting_traps: u64,
    /// Pages that were touched for the first time, and other exceptions.
    pub faults: u64,
    /// How often a thread was called in for signals.
    pub signals: u64,
}

#[derive(Default)]
struct One {
    calls: AtomicU64,
    errors: AtomicU64,
    nanoseconds: AtomicU64,
}

pub struct Counts {
    on: AtomicBool,
    calls: Box<[One]>,
    by_signal: AtomicU64,
    rewriting_traps: AtomicU64,
    faults: AtomicU64,
    signals: AtomicU64,
}

impl Counts {
    pub fn new() -> Self {
        Self {
            on: AtomicBool::new(false),
            calls: (0..=OTHERS).map(|_| One::default()).collect(),
            by_signal: AtomicU64::new(0),
            rewriting_traps: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            signals: AtomicU64::new(0),
        }
    }

    pub fn begin(&self) {
        self.on.store(true, Relaxed);
    }

    pub fn are_kept(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// A system call, which `call` makes, while they are counted.
    pub fn call(&self, number: i64, call: impl FnOnce() -> i64) -> i64 {
        let index = usize::try_from(number).map_or(OTHERS, |number| number.min(OTHERS));
        let one = &self.calls[index];
        if [libc::SYS_exit, libc::SYS_exit_group].contains(&number) {
            // Whoever waits for the end may look before this thread is back.
            one.calls.fetch_add(1, Relaxed);
            return call();
        }
        let begun = Instant::now();
        let answer = call();
        let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        one.calls.fetch_add(1, Relaxed);
        one.errors
            .fetch_add(ERRORS.contains(&answer).into(), Relaxed);
        one.nanoseconds.fetch_add(passed, Relaxed);
        answer
    }

    pub fn by_signal(&self) {
        self.by_signal.fetch_add(1, Relaxed);
    }

    pub fn rewriting_trap(&self) {
        self.rewriting_traps.fetch_add(1, Relaxed);
    }

    pub fn fault(&self) {
        self.faults.fetch_add(1, Relaxed);
    }

    pub fn signal(&self) {
        self.signals.fetch_add(1, Relaxed);
    }

    pub fn all(&self) -> ProgramCounts {
        let calls = (0..).zip(self.calls.iter()).map(|(number, one)| CallCount {
            number,
            calls: one.calls.load(Relaxed),
            errors: one.errors.load(Relaxed),
            nanoseconds: one.nanoseconds.load(Relaxed),
        });
        ProgramCounts {
            calls: calls.filter(|one| one.calls != 0).collect(),
            calls_by_signal: self.by_signal.load(Relaxed),
            rewriting_traps: self.rewriting_traps.load(Relaxed),
            faults: self.faults.load(Relaxed),
            signals: self.signals.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_ends_the_program_is_counted_before_anybody_hears_of_the_end() {
        let counts = Counts::new();
        counts.begin();
        let called = || counts.all().calls.iter().map(|one| one.calls).sum::<u64>();
        counts.call(libc::SYS_getpid, || called() as i64);
        assert_eq!(counts.call(libc::SYS_exit_group, || called() as i64), 2);
        assert_eq!(called(), 2);
    }
}

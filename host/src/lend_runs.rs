//! What of a loan is shown, as runs of frames: each is a mapping, of which the host allows a
//! process some 65,530. So their number is known, and bounded for each loan and for all.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most runs of frames that one loan is shown by.
pub const MOST_RUNS: usize = 4096;
/// The most for all loans of a process.
const MOST_OF_ALL: usize = 4 * MOST_RUNS;

/// How many there are.
static ALL: AtomicUsize = AtomicUsize::new(0);

/// Frames that one mapping shows.
#[derive(Clone, Copy)]
pub struct Run {
    pub at: u64,
    pub pa: u64,
    pub len: u64,
}

impl Run {
    fn end(&self) -> u64 {
        self.at + self.len
    }

    fn part(&self, at: u64, end: u64) -> Run {
        Run {
            at,
            pa: self.pa + (at - self.at),
            len: end - at,
        }
    }

    fn goes_on_with(&self, next: &Run) -> bool {
        self.end() == next.at && self.pa + self.len == next.pa
    }
}

/// By their places, none of which is in two.
pub struct Runs {
    list: Vec<Run>,
    /// Those of all loans, these among them.
    all: &'static AtomicUsize,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs::among(&ALL)
    }
}

impl Runs {
    const fn among(all: &'static AtomicUsize) -> Runs {
        Runs {
            list: Vec::new(),
            all,
        }
    }

    /// In the place of what was shown there. False: those are too many.
    pub fn add(&mut self, run: Run) -> bool {
        self.change(run.at..run.end(), Some(run))
    }

    /// What is in this range is not shown any more. False: it is now in too many.
    pub fn cut(&mut self, gone: &Range<u64>) -> bool {
        self.change(gone.clone(), None)
    }

    fn change(&mut self, range: Range<u64>, new: Option<Run>) -> bool {
        let list = &mut self.list;
        let before = list.len();
        let first = list.partition_point(|run| run.end() <= range.start);
        let behind = list.partition_point(|run| run.at < range.end);
        let ahead = list[first..behind].first();
        let ahead = ahead.filter(|run| run.at < range.start);
        let ahead = ahead.map(|run| run.part(run.at, range.start));
        let after = list[first..behind].last();
        let after = after.filter(|run| run.end() > range.end);
        let after = after.map(|run| run.part(range.end, run.end()));
        // With those that they touch.
        let (left, right) = (first.saturating_sub(1), list.len().min(behind + 1));
        let mut joined: Vec<Run> = Vec::with_capacity(5);
        let left_of = list[left..first].iter().copied();
        let right_of = list[behind..right].iter().copied();
        let all = left_of.chain(ahead).chain(new).chain(after).chain(right_of);
        for run in all {
            match joined.last_mut() {
                Some(last) if last.goes_on_with(&run) => last.len += run.len,
                _ => joined.push(run),
            }
        }
        list.splice(left..right, joined);
        self.fits(before)
    }

    /// Who has more now than before is who is asked to have less.
    fn fits(&self, before: usize) -> bool {
        let now = self.list.len();
        match now.checked_sub(before) {
            Some(0) => true,
            Some(more) => {
                let all = self.all.fetch_add(more, Ordering::Relaxed) + more;
                now <= MOST_RUNS && all <= MOST_OF_ALL
            }
            None => {
                self.all.fetch_sub(before - now, Ordering::Relaxed);
                true
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.list.iter()
    }

    pub fn clear(&mut self) {
        self.all.fetch_sub(self.list.len(), Ordering::Relaxed);
        self.list = Vec::new();
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn told(runs: &Runs) -> Vec<[u64; 3]> {
        let pages = |run: &Run| [run.at / PAGE, run.pa / PAGE, run.len / PAGE];
        runs.iter().map(pages).collect()
    }

    fn run(at: u64, pa: u64, len: u64) -> Run {
        Run {
            at: at * PAGE,
            pa: pa * PAGE,
            len: len * PAGE,
        }
    }

    /// A page is what was last said of it, and neighbours are one run.
    #[test]
    fn runs_are_what_a_page_by_page_account_says() {
        const PAGES: u64 = 24;
        let mut runs = Runs::default();
        let mut account = [None; PAGES as usize];
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..20_000 {
            let at = random(PAGES);
            let len = 1 + random(PAGES - at);
            let pa = random(3).checked_sub(1).map(|far| at + far * 100);
            match pa {
                Some(pa) => assert!(runs.add(run(at, pa, len))),
                None => assert!(runs.cut(&(at * PAGE..(at + len) * PAGE))),
            }
            for page in at..at + len {
                account[page as usize] = pa.map(|pa| pa + (page - at));
            }
            let mut expected: Vec<[u64; 3]> = Vec::new();
            for (page, pa) in (0..).zip(account) {
                let Some(pa) = pa else { continue };
                match expected.last_mut() {
                    Some([at, first, len]) if *at + *len == page && *first + *len == pa => {
                        *len += 1;
                    }
                    _ => expected.push([page, pa, 1]),
                }
            }
            assert_eq!(told(&runs), expected);
        }
    }

    /// Each page by itself, up to so many.
    fn scattered(all: &'static AtomicUsize, pages: usize) -> Runs {
        let mut runs = Runs::among(all);
        for page in 0..pages as u64 {
            assert!(runs.add(run(page, 2 * page, 1)), "{page}");
        }
        runs
    }

    #[test]
    fn one_loan_has_no_more_than_its_share() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let mut runs = scattered(&COUNT, MOST_RUNS);
        assert!(!runs.add(run(1 << 20, 0, 1)));
        // It is not asked again for what makes it no more.
        assert!(runs.cut(&(0..PAGE)) && runs.cut(&(1 << 40..2 << 40)));
    }

    #[test]
    fn all_loans_have_no_more_than_theirs_and_what_ends_is_given_back() {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let full: Vec<Runs> = (0..4).map(|_| scattered(&COUNT, MOST_RUNS)).collect();
        let mut one = Runs::among(&COUNT);
        assert!(!one.add(run(0, 0, 1)));
        drop(full);
        one.clear();
        assert!(one.add(run(0, 0, 1)));
        assert_eq!(COUNT.load(Ordering::Relaxed), 1);
    }
}

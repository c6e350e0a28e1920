//! Pages that are shown in a program's own window instead of a kernel's, and there only to be
//! read. The kernel maps a file as it does for mmap(2); what it wants shown of that comes to the
//! place of the loan, and what it takes away goes there before it has another use.
//!
//! While a loan is made its pages are only noted, which takes the host one call for each run of
//! frames afterwards, and not for each page. Later ones, which the kernel had taken away
//! meanwhile, are shown at once.

use crate::address::{Physical, Virtual};
use crate::lend_faults::Entry;
use crate::lend_runs::{Run, Runs};
use crate::memory::PAGE;
use crate::registry::Taken;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Clone, Copy, PartialEq)]
enum State {
    /// It is being made: what is to be shown is only noted.
    Noted,
    /// The same, but the host would have to map more than it may.
    Scattered,
    Shown,
    /// Nothing is shown any more, whatever the kernel still wants to.
    Over,
}

/// A loan, as the kernel's host operations find it.
struct Place {
    from: Range<u64>,
    to: u64,
    state: State,
    runs: Runs,
    /// What handlers of signals know of it.
    entry: Taken<Entry>,
}

impl Place {
    fn moved(&self, at: u64) -> Virtual {
        Virtual(self.to + (at - self.from.start))
    }

    fn map(&mut self, to: &impl Window, run: Run) {
        match self.state {
            State::Noted if !self.runs.add(run) => {
                self.state = State::Scattered;
                self.runs.clear();
            }
            // A view is lost, and not the kernel, which can do without no frame of its own.
            State::Shown if !self.runs.add(run) || show(to, self.moved(run.at), &run).is_err() => {
                self.end(to);
            }
            State::Shown | State::Noted | State::Scattered | State::Over => {}
        }
    }

    /// What is there now will have another use: it is not shown when this is over.
    fn unmap(&mut self, of: &impl Window, gone: &Range<u64>) {
        match self.state {
            State::Noted if !self.runs.cut(gone) => {
                self.state = State::Scattered;
                self.runs.clear();
            }
            State::Shown => {
                let (at, len) = (self.moved(gone.start), gone.end - gone.start);
                if !self.runs.cut(gone) || of.hide(at, len).is_err() {
                    self.end(of);
                }
            }
            State::Noted | State::Scattered | State::Over => {}
        }
    }

    fn end(&mut self, of: &impl Window) {
        let was = std::mem::replace(&mut self.state, State::Over);
        self.entry.end();
        self.runs.clear();
        // Who could still read here would read what becomes somebody else's.
        if was == State::Shown
            && of
                .hide(Virtual(self.to), self.from.end - self.from.start)
                .is_err()
        {
            std::process::abort();
        }
    }
}

fn show(to: &impl Window, at: Virtual, run: &Run) -> io::Result<()> {
    to.show(at, Physical(run.pa), run.len, libc::PROT_READ)
}

/// The loans of a kernel's.
#[derive(Default)]
pub struct Lent {
    count: AtomicUsize,
    places: Mutex<Vec<Place>>,
}

/// What the owner of the memory does for it.
pub trait Window {
    fn show(&self, va: Virtual, pa: Physical, len: u64, prot: i32) -> io::Result<()>;
    fn hide(&self, va: Virtual, len: u64) -> io::Result<()>;
    /// What is shown there will be read: at once it costs less than page by page.
    fn touch(&self, va: Virtual, len: u64);
}

impl Lent {
    fn lock(&self) -> MutexGuard<'_, Vec<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The kernel's `map`, where there are loans.
    pub fn map(&self, to: &impl Window, va: u64, pa: u64, len: u64, prot: i32) -> io::Result<()> {
        let mut places = self.lock();
        let mut at = va;
        while at < va + len {
            let (place, end) = piece(&mut places, at..va + len);
            let (pa, len) = (pa + (at - va), end - at);
            match place {
                None => to.show(Virtual(at), Physical(pa), len, prot)?,
                Some(place) => place.map(to, Run { at, pa, len }),
            }
            at = end;
        }
        Ok(())
    }

    /// The kernel's `unmap`, where there are loans.
    pub fn unmap(&self, of: &impl Window, va: u64, len: u64) -> io::Result<()> {
        let mut places = self.lock();
        let mut at = va;
        while at < va + len {
            let (place, end) = piece(&mut places, at..va + len);
            match place {
                None => of.hide(Virtual(at), end - at)?,
                Some(place) => place.unmap(of, &(at..end)),
            }
            at = end;
        }
        Ok(())
    }

    /// What the kernel shows of this range is shown there from now on, noted at first.
    fn begin(&self, from: Range<u64>, to: Virtual, entry: Taken<Entry>) {
        let mut places = self.lock();
        places.push(Place {
            from,
            to: to.0,
            state: State::Noted,
            runs: Runs::default(),
            entry,
        });
        self.count.store(places.len(), Ordering::Release);
    }

    /// Show what was noted. ENOMEM: that would take the host too many mappings.
    fn show(&self, to: &impl Window, from: u64) -> io::Result<()> {
        let mut places = self.lock();
        let Some(place) = places.iter_mut().find(|place| place.from.start == from) else {
            return Ok(());
        };
        if place.state != State::Noted {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        place.state = State::Shown;
        for run in place.runs.iter() {
            show(to, place.moved(run.at), run)?;
        }
        let (at, len) = (Virtual(place.to), place.from.end - from);
        // It takes its time, and who comes meanwhile need not wait.
        drop(places);
        to.touch(at, len);
        Ok(())
    }

    /// Nothing of it is shown any more, whatever the kernel still wants to.
    fn hide(&self, of: &impl Window, from: u64) {
        let mut places = self.lock();
        if let Some(place) = places.iter_mut().find(|place| place.from.start == from) {
            place.end(of);
        }
    }

    fn end(&self, from: u64) {
        let mut places = self.lock();
        let ended = |place: &mut Place| place.from.start == from;
        for place in places.extract_if(.., ended) {
            place.entry.forget();
        }
        self.count.store(places.len(), Ordering::Release);
    }
}

/// Of what begins this range: whose it is, and how far that goes.
fn piece(places: &mut [Place], range: Range<u64>) -> (Option<&mut Place>, u64) {
    let is_behind = |at: &u64| *at > range.start;
    let next = places
        .iter()
        .map(|place| place.from.start)
        .filter(is_behind)
        .min();
    match places
        .iter_mut()
        .find(|place| place.from.contains(&range.start))
    {
        Some(place) => {
            let end = place.from.end.min(range.end);
            (Some(place), end)
        }
        None => (None, next.map_or(range.end, |next| next.min(range.end))),
    }
}

/// What was lent. Its owner gives it back, before its place has another use.
pub struct Loan {
    from: u64,
    len: u64,
}

impl Loan {
    /// Of what the kernel has mapped at `from`.
    pub(crate) fn begin(kernel: u64, lent: &Lent, from: u64, to: Virtual, len: u64) -> Loan {
        let len = len.next_multiple_of(PAGE);
        let entry = Entry::take(kernel, Virtual(from), to, len);
        lent.begin(from..from + len, to, entry);
        Loan { from, len }
    }

    pub(crate) fn show(&self, lent: &Lent, to: &impl Window) -> io::Result<()> {
        lent.show(to, self.from)
    }

    /// First of two steps, between which the kernel takes its mapping away.
    pub(crate) fn hide(&self, lent: &Lent, of: &impl Window) {
        lent.hide(of, self.from);
    }

    /// Where the kernel has it mapped, and how much.
    pub(crate) fn mapped(&self) -> [u64; 2] {
        [self.from, self.len]
    }

    pub(crate) fn end(self, lent: &Lent) {
        lent.end(self.from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lend_runs::MOST_RUNS;
    use std::cell::{Cell, RefCell};

    #[derive(Default)]
    struct Told(RefCell<Vec<String>>, Cell<bool>);

    const PAGE_AT: u64 = 0x10000;

    fn entry() -> Taken<Entry> {
        Entry::take(0, Virtual(PAGE_AT), Virtual(0x9_0000), 0)
    }

    impl Window for Told {
        fn show(&self, va: Virtual, pa: Physical, len: u64, prot: i32) -> io::Result<()> {
            let text = format!("show {:x} {:x} {len:x} {prot}", va.0, pa.0);
            self.0.borrow_mut().push(text);
            Ok(())
        }

        fn hide(&self, va: Virtual, len: u64) -> io::Result<()> {
            self.0.borrow_mut().push(format!("hide {:x} {len:x}", va.0));
            match self.1.replace(false) {
                true => Err(io::Error::from_raw_os_error(libc::ENOMEM)),
                false => Ok(()),
            }
        }

        fn touch(&self, _: Virtual, _: u64) {}
    }

    #[test]
    fn what_is_noted_is_shown_by_runs_but_for_what_was_taken_away_meanwhile() {
        let (lent, told) = (Lent::default(), Told::default());
        lent.begin(0x10000..0x18000, Virtual(0x9_0000), entry());
        for page in 0..6 {
            lent.map(&told, 0x10000 + page * PAGE, 0x50000 + page * PAGE, PAGE, 3)
                .expect("noted");
        }
        lent.unmap(&told, 0x12000, PAGE).expect("forgotten");
        assert!(told.0.borrow().is_empty(), "{:?}", told.0);
        lent.show(&told, 0x10000).expect("shown");
        let expected = ["show 90000 50000 2000 1", "show 93000 53000 3000 1"];
        assert_eq!(told.0.take(), expected);
    }

    #[test]
    fn a_range_over_the_borders_of_a_loan_is_shown_and_hidden_in_both_windows() {
        let (lent, told) = (Lent::default(), Told::default());
        lent.begin(0x10000..0x12000, Virtual(0x9_0000), entry());
        lent.show(&told, 0x10000).expect("nothing to show");
        lent.map(&told, 0xf000, 0x50000, 4 * PAGE, 3).expect("map");
        lent.unmap(&told, 0xf000, 4 * PAGE).expect("unmap");
        let expected = [
            "show f000 50000 1000 3",
            "show 90000 51000 2000 1",
            "show 12000 53000 1000 3",
            "hide f000 1000",
            "hide 90000 2000",
            "hide 12000 1000",
        ];
        assert_eq!(told.0.take(), expected);
    }

    #[test]
    fn a_loan_that_ends_shows_nothing_any_more() {
        let (lent, told) = (Lent::default(), Told::default());
        lent.begin(0x10000..0x12000, Virtual(0x9_0000), entry());
        lent.show(&told, 0x10000).expect("nothing to show");
        lent.hide(&told, 0x10000);
        lent.map(&told, 0x10000, 0x50000, PAGE, 1).expect("ignored");
        lent.unmap(&told, 0x10000, PAGE).expect("ignored");
        assert_eq!(told.0.take(), ["hide 90000 2000"]);
        lent.end(0x10000);
        assert!(lent.is_empty());
    }
    #[test]
    fn what_the_host_does_not_take_away_alone_goes_with_the_whole_loan() {
        let (lent, told) = (Lent::default(), Told::default());
        lent.begin(0x10000..0x14000, Virtual(0x9_0000), entry());
        lent.show(&told, PAGE_AT).expect("nothing to show");
        lent.map(&told, PAGE_AT, 0x50000, 4 * PAGE, 1).expect("map");
        told.0.take();
        told.1.set(true);
        lent.unmap(&told, 0x11000, PAGE).expect("unmap");
        lent.map(&told, 0x11000, 0x50000, PAGE, 1).expect("ignored");
        assert_eq!(told.0.take(), ["hide 91000 1000", "hide 90000 4000"]);
    }

    #[test]
    fn a_loan_in_too_many_pieces_is_refused_and_one_that_falls_into_them_ends() {
        let (lent, told) = (Lent::default(), Told::default());
        let len = 4 * MOST_RUNS as u64 * PAGE;
        let each_other = |from: u64| {
            for page in 0..=MOST_RUNS as u64 {
                lent.map(&told, from + page * PAGE, 2 * page * PAGE, PAGE, 1)
                    .expect("mapped, or not");
            }
        };
        lent.begin(PAGE_AT..PAGE_AT + len, Virtual(1 << 40), entry());
        each_other(PAGE_AT);
        let refused = lent.show(&told, PAGE_AT).expect_err("scattered");
        assert_eq!(refused.raw_os_error(), Some(libc::ENOMEM));
        lent.end(PAGE_AT);

        lent.begin(PAGE_AT..PAGE_AT + len, Virtual(1 << 40), entry());
        lent.show(&told, PAGE_AT).expect("nothing to show");
        told.0.take();
        each_other(PAGE_AT);
        let told = told.0.take();
        assert_eq!(told.len(), MOST_RUNS + 1);
        assert_eq!(told.last(), Some(&format!("hide {:x} {len:x}", 1u64 << 40)));
    }
}

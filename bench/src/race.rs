//! Contestants take turns, and those that take long theirs after the others.

use crate::interrupt;
use crate::progress;
use crate::promise::Promise;
use crate::report::Report;
use crate::sample::Sample;

/// Someone who does the promised thing once and says what it took, in the
/// promise's unit. Only the doing is timed, not preparing, checking, deleting.
pub struct Contestant<'a> {
    pub subject: String,
    /// What exactly it is, where that depends on the machine.
    pub note: String,
    /// It runs no more often than this.
    most: u32,
    pub once: Box<dyn FnMut() -> Result<f64, String> + 'a>,
}

impl<'a> Contestant<'a> {
    pub fn new(
        subject: impl Into<String>,
        once: impl FnMut() -> Result<f64, String> + 'a,
    ) -> Contestant<'a> {
        Contestant {
            subject: subject.into(),
            note: String::new(),
            most: u32::MAX,
            once: Box::new(once),
        }
    }

    pub fn noted(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// For what takes so long that all others would wait for it.
    pub fn at_most(mut self, runs: u32) -> Self {
        self.most = runs;
        self
    }

    fn is_long(&self) -> bool {
        self.most != u32::MAX
    }
}

/// Let everyone run once uncounted, then `rounds` times in turn. Who fails is
/// out, with the reason in the report.
pub fn race(promise: &Promise, rounds: u32, contestants: Vec<Contestant>, report: &mut Report) {
    let mut lanes: Vec<Lane> = contestants
        .into_iter()
        .map(|contestant| (contestant, Vec::new(), None))
        .collect();
    // What takes long (a virtual machine) leaves others the host's memory and caches as
    // nobody else does: its turns come when theirs are over.
    for last in [false, true] {
        for round in 0..=rounds as usize {
            progress::round(&promise.name, round as u32, rounds);
            for turn in 0..lanes.len() {
                let at = (turn + round) % lanes.len();
                let (contestant, times, failed) = &mut lanes[at];
                let is_out = failed.is_some() || round > contestant.most as usize;
                if is_out || contestant.is_long() != last || interrupt::asked() {
                    continue;
                }
                match (contestant.once)() {
                    Ok(_) if round == 0 => {}
                    Ok(time) => times.push(time),
                    // A child that Ctrl-C ended.
                    Err(_) if interrupt::asked() => {}
                    Err(error) => *failed = Some(error),
                }
            }
        }
    }
    conclude(promise, rounds, lanes, report);
}

/// A contestant, what it took, and why it is out.
type Lane<'a> = (Contestant<'a>, Vec<f64>, Option<String>);

fn conclude(promise: &Promise, rounds: u32, lanes: Vec<Lane>, report: &mut Report) {
    // An interrupted race is what all have run of it, so that runs stay in pairs.
    let running = lanes
        .iter()
        .filter(|(who, _, failed)| failed.is_none() && !who.is_long());
    let whole = running.map(|(_, times, _)| times.len()).min().unwrap_or(0);
    for (contestant, mut times, failed) in lanes {
        let Contestant { subject, note, .. } = &contestant;
        let mut note = note.clone();
        if contestant.is_long() && times.len() < rounds as usize {
            let comma = if note.is_empty() { "" } else { ", " };
            note += &format!("{comma}{} runs, as it takes long", times.len());
        } else if !contestant.is_long() && failed.is_none() && whole < rounds as usize {
            times.truncate(whole);
            let comma = if note.is_empty() { "" } else { ", " };
            note += &format!("{comma}{} after {whole} of {rounds} runs", interrupt::WHY);
        }
        match (failed, Sample::of(times)) {
            (None, Some(sample)) => report.add_noted(promise, subject, &note, sample),
            (failed, _) => {
                let why = failed.as_deref().unwrap_or(interrupt::WHY);
                report.miss(promise, subject, why);
            }
        }
    }
}

/// Batches for each run that was asked for, of what takes microseconds.
pub const BATCHES: u32 = 9;
const BATCH_NS: f64 = 3e6;

/// Someone who does something that takes too little to be timed alone; `call`
/// answers less than 0 if it fails. In ns for each.
pub fn batches<'a>(mut call: impl FnMut() -> i64 + 'a) -> impl FnMut() -> Result<f64, String> + 'a {
    let mut count = 0;
    move || {
        if count == 0 {
            // Find out how many make a batch, with caches already warm.
            time(20, &mut call)?;
            let one = time(100, &mut call)?;
            count = ((BATCH_NS / one) as u32).clamp(1, 10_000_000);
        }
        time(count, &mut call)
    }
}

/// ns for each of `count` calls, none of which may fail.
#[inline]
fn time(count: u32, mut call: impl FnMut() -> i64) -> Result<f64, String> {
    let mut worst = 0;
    let start = std::time::Instant::now();
    for _ in 0..count {
        worst = worst.min(call());
    }
    let time = start.elapsed();
    if worst < 0 {
        let error = std::io::Error::from_raw_os_error(-worst as i32);
        return Err(format!("the call failed: {error}"));
    }
    Ok(time.as_secs_f64() * 1e9 / f64::from(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::Set;
    use crate::report::{HOST, TANE};
    use crate::target::Target;
    use std::cell::RefCell;

    #[test]
    fn contestants_take_turns_and_the_first_round_does_not_count() {
        let promise = Promise::new("x", Set::Syscalls, "x", "ns", Target::None);
        let (order, mut report) = (RefCell::new(Vec::new()), Report::empty());
        let lane = |name: &'static str, order: &RefCell<Vec<&'static str>>| {
            order.borrow_mut().push(name);
            Ok(order.borrow().len() as f64)
        };
        let lanes = vec![
            Contestant::new(TANE, || lane(TANE, &order)),
            Contestant::new(HOST, || lane(HOST, &order)),
        ];
        race(&promise, 3, lanes, &mut report);
        let expected = [TANE, HOST, HOST, TANE, TANE, HOST, HOST, TANE];
        assert_eq!(*order.borrow(), expected);
        let runs = |subject| {
            report
                .figure(&promise, subject)
                .unwrap()
                .sample
                .runs
                .clone()
        };
        assert_eq!(runs(TANE), [4.0, 5.0, 8.0]);
        assert_eq!(runs(HOST), [3.0, 6.0, 7.0]);
    }

    #[test]
    fn who_fails_is_out_with_the_reason_and_the_others_go_on() {
        let promise = Promise::new("x", Set::Syscalls, "x", "ns", Target::None);
        let mut report = Report::empty();
        let lanes = vec![
            Contestant::new(TANE, || Err("broken".into())),
            Contestant::new(HOST, || Ok(1.0)),
        ];
        race(&promise, 2, lanes, &mut report);
        assert!(report.figure(&promise, TANE).is_none());
        assert_eq!(report.missing[0].why, "broken");
        assert_eq!(report.figure(&promise, HOST).unwrap().sample.runs.len(), 2);
    }

    #[test]
    fn an_interrupted_race_is_the_rounds_that_all_have_run() {
        let promise = Promise::new("x", Set::Syscalls, "x", "ns", Target::None);
        let lane = |name, times: &[f64], failed: Option<&str>| {
            let lane = Contestant::new(name, || Ok(0.0));
            (lane, times.to_vec(), failed.map(String::from))
        };
        let mut report = Report::empty();
        let lanes = vec![
            lane(TANE, &[1.0, 2.0, 3.0], None),
            lane(HOST, &[4.0, 5.0], None),
            lane("peer", &[6.0], Some("broken")),
        ];
        conclude(&promise, 5, lanes, &mut report);
        let figure = |subject| report.figure(&promise, subject).unwrap();
        assert_eq!(figure(TANE).sample.runs, [1.0, 2.0]);
        assert_eq!(figure(HOST).sample.runs, [4.0, 5.0]);
        assert_eq!(figure(HOST).note, "interrupted after 2 of 5 runs");
        assert_eq!(report.missing[0].why, "broken");
        let lanes = vec![lane(TANE, &[1.0], None), lane(HOST, &[], None)];
        let mut report = Report::empty();
        conclude(&promise, 5, lanes, &mut report);
        assert!(report.figures.is_empty());
        assert_eq!(
            [0, 1].map(|at| report.missing[at].why.as_str()),
            ["interrupted"; 2]
        );
    }

    #[test]
    fn a_call_that_fails_once_in_a_batch_fails_the_batch() {
        let mut count = 0;
        let mut batch = batches(|| {
            count += 1;
            if count == 50 {
                -i64::from(libc::EIO)
            } else {
                0
            }
        });
        let error = batch().unwrap_err();
        assert!(error.contains("Input/output error"), "{error}");
    }
}

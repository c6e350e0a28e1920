//! Contestants take turns.

use crate::interrupt;
use crate::promise::Promise;
use crate::report::Report;
use crate::sample::Sample;

/// Someone who does the promised thing once and says what it took, in the
/// promise's unit. Only the doing is timed, not preparing, checking, deleting.
pub struct Contestant<'a> {
    pub subject: &'static str,
    pub once: Box<dyn FnMut() -> Result<f64, String> + 'a>,
}

impl<'a> Contestant<'a> {
    pub fn new(
        subject: &'static str,
        once: impl FnMut() -> Result<f64, String> + 'a,
    ) -> Contestant<'a> {
        Contestant {
            subject,
            once: Box::new(once),
        }
    }
}

/// Let everyone run once uncounted, then `rounds` times in turn. Who fails is
/// out, with the reason in the report.
pub fn race(promise: &Promise, rounds: u32, contestants: Vec<Contestant>, report: &mut Report) {
    let mut lanes: Vec<_> = contestants
        .into_iter()
        .map(|contestant| (contestant, Vec::new(), None))
        .collect();
    for round in 0..=rounds as usize {
        for turn in 0..lanes.len() {
            let at = (turn + round) % lanes.len();
            let (contestant, times, failed) = &mut lanes[at];
            if failed.is_some() || interrupt::asked() {
                continue;
            }
            match (contestant.once)() {
                Ok(_) if round == 0 => {}
                Ok(time) => times.push(time),
                Err(error) => *failed = Some(error),
            }
        }
    }
    for (contestant, times, failed) in lanes {
        match (failed, Sample::of(times)) {
            (None, Some(sample)) => report.add(promise, contestant.subject, sample),
            (failed, _) => report.miss(promise, contestant.subject, &failed.unwrap_or_default()),
        }
    }
}

//! When a promise is kept.

use crate::promise::Promise;
use crate::report::{Report, HOST, MEMCPY, TANE};
use crate::table::number;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// So many times faster than the host's own kernel.
    Faster(f64),
    /// So many times faster than the host, and at least this part of what the
    /// machine's memory allows.
    Bulk { host: f64, memcpy: f64 },
    /// So many times as fast as this contestant.
    Than { other: String, times: f64 },
    /// So many times as fast as whoever is the fastest of the others.
    Best(f64),
    /// At most so much, in the promise's unit.
    AtMost(f64),
    /// At least so much, in the promise's unit.
    AtLeast(f64),
    /// Only reported.
    None,
}

impl Target {
    pub fn than(other: &str, times: f64) -> Self {
        let other = other.into();
        Self::Than { other, times }
    }

    pub fn text(&self, unit: &str) -> String {
        match self {
            Self::Faster(times) => format!("≥ {times}×"),
            Self::Than { other, times } => format!("≥ {times}× {other}"),
            Self::Best(times) => format!("≥ {times}× the fastest other"),
            Self::Bulk { host, memcpy } => {
                format!("≥ {host}×, ≥ {:.0} % of memcpy", memcpy * 100.0)
            }
            Self::AtMost(most) => format!("≤ {most} {unit}"),
            Self::AtLeast(least) => format!("≥ {least} {unit}"),
            Self::None => String::new(),
        }
    }
}

/// What a target says of measured figures.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// Nothing if there is no target, or no figure to judge by.
    pub kept: Option<bool>,
    /// By how much it falls short; empty if it is kept.
    pub shortfall: String,
}

/// Judge a promise by what was measured in this run.
pub fn judge(promise: &Promise, report: &Report) -> Verdict {
    let Some(ours) = report.figure(promise, TANE) else {
        return Verdict::default();
    };
    let ours = ours.sample.median;
    let unit = &promise.unit;
    let needs = |least: f64, other: &str| {
        let ratio = report.ratio(promise, other, TANE)?.median;
        let line = format!("{} of {least} times {other}'s speed", number(ratio));
        Some((ratio >= least, line))
    };
    let checks = match &promise.target {
        Target::None => return Verdict::default(),
        Target::Faster(times) => vec![needs(*times, HOST)],
        Target::Bulk { host, memcpy } => vec![needs(*host, HOST), needs(*memcpy, MEMCPY)],
        Target::Than { other, times } => vec![needs(*times, other)],
        Target::Best(times) => match fastest_other(promise, report) {
            Some(other) => vec![needs(*times, &other)],
            None => return Verdict::default(),
        },
        Target::AtMost(most) => {
            let line = format!("{} {unit} where {most} are the most", number(ours));
            vec![Some((ours <= *most, line))]
        }
        Target::AtLeast(least) => {
            let line = format!("{} {unit} where {least} are the least", number(ours));
            vec![Some((ours >= *least, line))]
        }
    };
    if checks.iter().any(Option::is_none) {
        return Verdict::default();
    }
    let missed: Vec<_> = checks
        .into_iter()
        .flatten()
        .filter(|(kept, _)| !kept)
        .map(|(_, line)| line)
        .collect();
    Verdict {
        kept: Some(missed.is_empty()),
        shortfall: missed.join("; "),
    }
}

/// Who needs least of those that are not ours: names of ours begin with "tane".
pub fn fastest_other(promise: &Promise, report: &Report) -> Option<String> {
    let others = report.of(promise).filter(|f| !f.subject.starts_with(TANE));
    let fastest = others.min_by(|a, b| a.sample.median.total_cmp(&b.sample.median));
    fastest.map(|f| f.subject.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::Set;
    use crate::sample::Sample;

    fn judged(target: &Target, figures: &[(&str, f64)]) -> Verdict {
        let promise = Promise::new("x", Set::Syscalls, "x", "ns", target.clone());
        let mut report = Report::empty();
        for (subject, figure) in figures {
            report.add(&promise, subject, Sample::of(vec![*figure]).unwrap());
        }
        judge(&promise, &report)
    }

    #[test]
    fn a_target_is_judged_by_the_ratio_to_the_host() {
        let target = Target::Faster(10.0);
        assert_eq!(
            judged(&target, &[(TANE, 10.0), (HOST, 100.0)]).kept,
            Some(true)
        );
        let missed = judged(&target, &[(TANE, 10.0), (HOST, 99.0)]);
        assert_eq!(missed.kept, Some(false));
        assert!(missed.shortfall.contains("9.90 of 10"), "{missed:?}");
    }

    #[test]
    fn bulk_takes_both_the_host_and_the_memory() {
        let target = Target::Bulk {
            host: 2.0,
            memcpy: 0.95,
        };
        let kept =
            |host, memcpy| judged(&target, &[(TANE, 100.0), (HOST, host), (MEMCPY, memcpy)]).kept;
        assert_eq!(kept(200.0, 95.0), Some(true));
        assert_eq!(kept(199.0, 95.0), Some(false));
        assert_eq!(kept(200.0, 94.0), Some(false));
    }

    #[test]
    fn a_target_may_name_its_peer_or_take_the_fastest_one() {
        let figures = [(TANE, 10.0), ("a", 30.0), ("b", 20.0), ("tane, x", 1.0)];
        let kept = |target: Target| judged(&target, &figures).kept;
        assert_eq!(kept(Target::than("a", 3.0)), Some(true));
        assert_eq!(kept(Target::than("a", 3.1)), Some(false));
        assert_eq!(kept(Target::Best(2.0)), Some(true));
        assert_eq!(kept(Target::Best(2.1)), Some(false));
        assert_eq!(kept(Target::than("c", 1.0)), None);
    }

    #[test]
    fn limits_have_a_direction() {
        assert_eq!(
            judged(&Target::AtMost(5.0), &[(TANE, 5.0)]).kept,
            Some(true)
        );
        assert_eq!(
            judged(&Target::AtMost(5.0), &[(TANE, 5.1)]).kept,
            Some(false)
        );
        assert_eq!(
            judged(&Target::AtLeast(1.9), &[(TANE, 1.8)]).kept,
            Some(false)
        );
        assert_eq!(
            judged(&Target::AtLeast(1.9), &[(TANE, 1.9)]).kept,
            Some(true)
        );
    }

    #[test]
    fn what_was_not_measured_is_neither_kept_nor_missed() {
        assert_eq!(
            judged(&Target::Faster(2.0), &[(TANE, 1.0)]),
            Verdict::default()
        );
        assert_eq!(judged(&Target::AtMost(2.0), &[]), Verdict::default());
    }
}

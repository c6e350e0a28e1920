//! The results of several runs of one thing.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sample {
    pub median: f64,
    /// A quarter of the runs is below this, three quarters below the next.
    pub lower: f64,
    pub upper: f64,
    pub min: f64,
    pub max: f64,
    /// In the order they were measured.
    pub runs: Vec<f64>,
}

impl Sample {
    /// None of no runs.
    pub fn of(runs: Vec<f64>) -> Option<Self> {
        let mut sorted = runs.clone();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        Some(Self {
            median: quantile(&sorted, 0.5),
            lower: quantile(&sorted, 0.25),
            upper: quantile(&sorted, 0.75),
            min,
            max,
            runs,
        })
    }

    /// How many times ours theirs is. Those who took turns met the same noise,
    /// so runs are compared in pairs; else all with all that can be said, the
    /// medians.
    pub fn ratio(theirs: &Self, ours: &Self) -> Option<Self> {
        if theirs.runs.len() != ours.runs.len() {
            return Self::of(vec![theirs.median / ours.median]);
        }
        let pairs = theirs.runs.iter().zip(&ours.runs);
        let ratios: Vec<f64> = pairs.map(|(theirs, ours)| theirs / ours).collect();
        // Of nothing there is no ratio.
        ratios
            .iter()
            .all(|ratio| ratio.is_finite())
            .then(|| Self::of(ratios))?
    }
}

/// Between the two nearest of sorted values (R's default, type 7).
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let at = part * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quartiles_are_those_of_r() {
        assert!(Sample::of(vec![]).is_none());
        let odd = Sample::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert_eq!((odd.lower, odd.upper), (1.5, 2.5));
        assert_eq!(odd.runs, [3.0, 1.0, 2.0]);
        assert_eq!(Sample::of(vec![4.0, 1.0]).unwrap().median, 2.5);
        // quantile(c(1, 2, 4, 8, 16, 32), c(.25, .75))
        let six = Sample::of(vec![32.0, 1.0, 16.0, 2.0, 8.0, 4.0]).unwrap();
        assert_eq!((six.lower, six.median, six.upper), (2.5, 6.0, 14.0));
    }

    #[test]
    fn ratios_pair_the_runs_that_took_turns() {
        // A noisy second run that hit both is no noise of the ratio.
        let theirs = Sample::of(vec![20.0, 200.0, 22.0]).unwrap();
        let ours = Sample::of(vec![10.0, 100.0, 10.0]).unwrap();
        let ratio = Sample::ratio(&theirs, &ours).unwrap();
        assert_eq!((ratio.min, ratio.median, ratio.max), (2.0, 2.0, 2.2));
        let nothing = Sample::of(vec![0.0; 3]).unwrap();
        assert!(Sample::ratio(&theirs, &nothing).is_none());
        assert!(Sample::ratio(&nothing, &nothing).is_none());
        let one = Sample::of(vec![5.0]).unwrap();
        assert_eq!(Sample::ratio(&theirs, &one).unwrap().median, 22.0 / 5.0);
    }
}

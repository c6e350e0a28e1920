//! The results of several runs of one thing.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Sample {
    pub median: f64,
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
        let half = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[half]
        } else {
            (sorted[half - 1] + sorted[half]) / 2.0
        };
        Some(Self {
            median,
            min,
            max,
            runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!(Sample::of(vec![]).is_none());
        let odd = Sample::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert_eq!(Sample::of(vec![4.0, 1.0]).unwrap().median, 2.5);
    }
}

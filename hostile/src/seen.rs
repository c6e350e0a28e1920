//! What kernels did before, so that what is new stands out.

use crate::bench::Outcome;
use crate::calls::Call;

/// How often a way was taken counts as one of these: 1, 2, 3, 4 to 7, …
const STEPS: [u8; 7] = [2, 3, 4, 8, 16, 32, 128];
const WAYS: usize = 1 << 16;

/// Ways, and errors of calls, that there were.
#[derive(Debug)]
pub struct Seen {
    /// A bit for each step, by way.
    ways: Vec<u8>,
    /// By call and error.
    results: std::collections::BTreeSet<(&'static str, i32)>,
}

impl Seen {
    /// Nothing yet.
    pub fn new() -> Seen {
        Seen {
            ways: vec![0; WAYS],
            results: std::collections::BTreeSet::new(),
        }
    }

    /// How many ways there were in all.
    pub fn ways(&self) -> usize {
        self.ways.iter().filter(|steps| **steps != 0).count()
    }

    /// Whether something was new, which is known from now on.
    pub fn add(&mut self, calls: &[Call], outcome: &Outcome) -> bool {
        let mut new = false;
        for (way, count) in &outcome.edges {
            let step = STEPS.iter().filter(|least| count >= least).count();
            let known = &mut self.ways[usize::from(*way)];
            new |= *known & (1 << step) == 0;
            *known |= 1 << step;
        }
        let names = calls.iter().map(Call::name).chain(["unmount"]);
        let names = std::iter::once("mount").chain(names);
        for result in names.zip(outcome.results.iter().copied()) {
            new |= self.results.insert(result);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_much_more_often_is_new_too() {
        let mut seen = Seen::new();
        let took = |edges: &[(u16, u8)]| Outcome {
            edges: edges.to_vec(),
            ..Outcome::default()
        };
        assert!(seen.add(&[], &took(&[(5, 1)])));
        assert!(!seen.add(&[], &took(&[(5, 1)])));
        assert!(seen.add(&[], &took(&[(5, 9)])));
        assert!(!seen.add(&[], &took(&[(5, 15)])));
        assert!(seen.add(&[], &took(&[(5, 15), (6, 1)])));
        assert_eq!(seen.ways(), 2);
        let error = Outcome {
            results: vec![5],
            ..Outcome::default()
        };
        assert!(seen.add(&[], &error));
        assert!(!seen.add(&[], &error));
    }
}

//! What to try next, and what was found.

use crate::bench::Outcome;
use crate::calls::{self, Call, Names};
use crate::checksums::{self, Fixup};
use crate::damage::Base;
use crate::random::Random;
use crate::seen::Seen;
use crate::shrink::least;
use crate::sparse::{Block, Sparse, BLOCK};
use crate::words::place;
use std::collections::{BTreeSet, VecDeque};

/// A file system, and what is done with it.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its image.
    pub image: Sparse,
    /// What is done once it is mounted.
    pub calls: Vec<Call>,
}

/// How a meeting ended.
#[derive(Clone, Debug)]
pub enum Met {
    /// Everything returned, or the kernel has died and its process has not.
    Outcome(Outcome),
    /// It did not end in time: in which call, 0 for the mount.
    Hang(usize),
    /// The kernel's process has ended, and how.
    Gone(String),
}

/// Who meets file systems.
pub trait Meets {
    /// What may go wrong beside what is looked for.
    type Error;
    /// Meet one that differs from the sound one in these blocks.
    fn meet(&mut self, blocks: &[(u64, &Block)], calls: &[Call]) -> Result<Met, Self::Error>;
}

/// What is wrong with it, in words that are the same each time; None: nothing is.
/// `warns`: warnings count, too.
pub fn fault(met: &Met, calls: &[Call], warns: bool) -> Option<String> {
    match met {
        Met::Hang(0) => Some("hangs in mount".into()),
        Met::Hang(n) => Some(match calls.get(n - 1) {
            Some(call) => format!("hangs in {}", call.name()),
            None => "hangs in unmount".into(),
        }),
        Met::Gone(how) => Some(format!("the process {how}")),
        Met::Outcome(outcome) => match &outcome.died {
            Some(words) => Some(place(words)),
            None if warns => outcome.warnings.first().map(|w| format!("WARNING: {w}")),
            None => None,
        },
    }
}

/// A hunt through file systems that are all like a sound one.
#[derive(Debug)]
pub struct Hunt {
    base: Base,
    fixup: Option<Fixup>,
    names: Names,
    random: Random,
    kept: Vec<Input>,
    /// What is tried as it is, before anything else.
    coming: VecDeque<Input>,
    seen: Seen,
    found: BTreeSet<String>,
    warns: bool,
    tried: u64,
    sum: u32,
}

/// What a meeting was good for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Something happened that had not happened before, so it is kept.
    pub kept: bool,
    /// What is wrong, if nobody knew.
    pub found: Option<String>,
}

impl Hunt {
    /// Each seed has a hunt of its own, the same each time.
    pub fn new(base: Base, fstype: &str, seed: u64, names: Names, read_only: bool) -> Hunt {
        let sound = Input {
            image: base.image.clone(),
            calls: calls::first(!read_only),
        };
        Hunt {
            base,
            fixup: checksums::of(fstype),
            names,
            random: Random(seed),
            kept: vec![sound.clone()],
            coming: [sound].into(),
            seen: Seen::new(),
            found: BTreeSet::new(),
            warns: false,
            tried: 0,
            sum: 0,
        }
    }

    /// Warnings are looked for, too.
    pub fn warns(mut self, yes: bool) -> Hunt {
        self.warns = yes;
        self
    }

    /// The sound image.
    pub fn base(&self) -> &Sparse {
        &self.base.image
    }

    /// What another hunt has kept.
    pub fn keep(&mut self, input: Input) {
        self.coming.push_back(input);
    }

    /// What to try next.
    pub fn choose(&mut self) -> Input {
        self.tried += 1;
        let input = match self.coming.pop_front() {
            Some(input) => input,
            None => self.another(),
        };
        for (number, block) in input.image.differing(&self.base.image) {
            self.sum = crc32c::crc32c_append(self.sum, &number.to_le_bytes());
            self.sum = crc32c::crc32c_append(self.sum, &block[..]);
        }
        for call in &input.calls {
            self.sum = crc32c::crc32c_append(self.sum, call.to_string().as_bytes());
        }
        input
    }

    fn another(&mut self) -> Input {
        let random = &mut self.random;
        let kept = self.kept.len() as u64;
        // What was found last is where something may be near.
        let at = match random.below(2) {
            0 => kept - 1 - random.below(kept.min(8)),
            _ => random.below(kept),
        };
        let mut input = self.kept[at as usize].clone();
        if random.below(8) != 0 {
            for _ in 0..=random.below(3) {
                input.image = self.base.damage(input.image, self.fixup, random);
            }
        }
        for _ in 0..random.below(4) {
            self.names.mutate(&mut input.calls, random);
        }
        input
    }

    /// Learn from what came of it.
    pub fn learn(&mut self, input: Input, met: &Met) -> News {
        let found = fault(met, &input.calls, self.warns);
        let found = found.filter(|fault| self.found.insert(fault.clone()));
        let kept = match met {
            Met::Outcome(outcome) if outcome.died.is_none() => self.seen.add(&input.calls, outcome),
            _ => false,
        };
        if kept && self.tried > 1 {
            self.kept.push(input);
        }
        News { kept, found }
    }

    /// How many were tried.
    pub fn tried(&self) -> u64 {
        self.tried
    }

    /// How many are kept because they did something new.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// How many ways the kernel took.
    pub fn ways(&self) -> usize {
        self.seen.ways()
    }

    /// How many faults are known.
    pub fn found(&self) -> usize {
        self.found.len()
    }

    /// A sum of all that was tried, in order.
    pub fn sum(&self) -> u32 {
        self.sum
    }
}

/// Bytes of an image that are not as they were: where, and what.
type Change = (u64, Vec<u8>);

fn changes(image: &Sparse, base: &Sparse) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for (number, block) in image.differing(base) {
        let old: Block = base.bytes(number * BLOCK);
        for (i, byte) in block.iter().enumerate().filter(|(i, b)| old[*i] != **b) {
            let at = number * BLOCK + i as u64;
            match changes.last_mut() {
                Some((start, bytes)) if *start + bytes.len() as u64 == at => bytes.push(*byte),
                _ => changes.push((at, vec![*byte])),
            }
        }
    }
    changes
}

fn with(base: &Sparse, changes: &[Change]) -> Sparse {
    let mut image = base.clone();
    for (at, bytes) in changes {
        image.write(*at, bytes);
    }
    image
}

/// More single bytes than this are not tried one by one.
const BYTES: usize = 4096;

/// The least of an input that has the same fault; None: it has not, met alone.
pub fn smallest<M: Meets>(
    base: &Sparse,
    input: &Input,
    known: &str,
    warns: bool,
    mut tries: u32,
    meets: &mut M,
) -> Result<Option<Input>, M::Error> {
    let mut broken = None;
    let mut has = |image: &Sparse, calls: &[Call]| {
        let met = meets.meet(&image.differing(base), calls);
        match met {
            Ok(met) => fault(&met, calls, warns).as_deref() == Some(known),
            Err(error) => {
                broken.get_or_insert(error);
                false
            }
        }
    };
    let result = if has(&input.image, &input.calls) {
        let calls = least(input.calls.clone(), &mut tries, |some| {
            has(&input.image, some)
        });
        let all = changes(&input.image, base);
        let mut left = least(all, &mut tries, |some| has(&with(base, some), &calls));
        if left.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() <= BYTES {
            let single = |(at, bytes): &Change| -> Vec<Change> {
                let bytes = bytes.iter().enumerate();
                bytes.map(|(i, b)| (at + i as u64, vec![*b])).collect()
            };
            let bytes = left.iter().flat_map(single).collect();
            left = least(bytes, &mut tries, |some| has(&with(base, some), &calls));
        }
        let image = with(base, &left);
        Some(Input { image, calls })
    } else {
        None
    };
    match broken {
        Some(error) => Err(error),
        None => Ok(result),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Dies if byte 5000 is 7 and a directory is made.
    struct Planted<'a>(&'a Sparse, u32);

    impl Meets for Planted<'_> {
        type Error = Infallible;
        fn meet(&mut self, blocks: &[(u64, &Block)], calls: &[Call]) -> Result<Met, Infallible> {
            self.1 += 1;
            let mut image = self.0.clone();
            for (number, block) in blocks {
                image.write(number * BLOCK, &block[..]);
            }
            let dies = image.bytes(5000) == [7] && calls.iter().any(|c| c.name() == "mkdir");
            Ok(Met::Outcome(Outcome {
                died: dies.then(|| "kernel BUG at fs/x.c:5!\nRIP: 0010:f+0x1/0x2".into()),
                ..Outcome::default()
            }))
        }
    }

    fn base() -> Base {
        let mut image = Sparse::empty(1 << 20);
        image.write(0, &[1; 20_000]);
        Base::new(image, b"")
    }

    #[test]
    fn what_is_left_of_a_find_is_what_it_takes() {
        let base = base();
        let mut image = base.image.clone();
        image.write(100, &[9; 300]);
        image.write(4990, &[7; 500]);
        image.write(900_000, b"beyond");
        let input = Input {
            image,
            calls: calls::first(true),
        };
        let mut planted = Planted(&base.image, 0);
        let met = planted.meet(&input.image.differing(&base.image), &input.calls);
        let known = fault(&met.expect("never"), &input.calls, false).expect("it dies");
        assert_eq!(known, "kernel BUG at fs/x.c:5!, in f");
        let least = smallest(&base.image, &input, &known, false, 1000, &mut planted);
        let least = least.expect("never").expect("it dies again");
        assert_eq!(changes(&least.image, &base.image), [(5000, vec![7])]);
        assert_eq!(least.calls, [Call::parse("mkdir new1").expect("a call")]);
        let other = smallest(&base.image, &input, "another", false, 1000, &mut planted);
        assert!(other.expect("never").is_none());
    }

    #[test]
    fn a_seed_has_one_hunt() {
        let hunt = |seed| {
            let mut hunt = Hunt::new(base(), "ext4", seed, Names::default(), false);
            for n in 0..200 {
                let input = hunt.choose();
                let outcome = Outcome {
                    edges: vec![(n / 10, 1)],
                    ..Outcome::default()
                };
                hunt.learn(input, &Met::Outcome(outcome));
            }
            (hunt.sum(), hunt.kept())
        };
        assert_eq!(hunt(1), hunt(1));
        assert_ne!(hunt(1).0, hunt(2).0);
    }
}

//! What is told of a hunt.

use super::base::Corpus;
use crate::failure::Result;
use crate::names::plain;
use crate::output::Output;
use crate::session::Global;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use tane_hostile::hunt::{Hunt, Input, Met};
use tane_hostile::reproducer::Reproducer;
use tane_hostile::sparse::{Sparse, BLOCK};
use tane_hostile::wire::lines;

/// How long so many took.
#[derive(Default)]
pub struct Rate {
    pub count: u64,
    pub time: Duration,
}

impl Rate {
    pub fn add(&mut self, took: Duration) {
        self.count += 1;
        self.time += took;
    }

    /// How many in a second.
    fn per_second(&self) -> f64 {
        match self.time.is_zero() {
            true => 0.0,
            false => self.count as f64 / self.time.as_secs_f64(),
        }
    }
}

/// By going back, and with a process and a kernel for each.
#[derive(Default)]
pub struct Rates {
    pub back: Rate,
    pub anew: Rate,
}

pub fn progress(hunt: &Hunt, rates: &Rates) -> String {
    format!(
        "{} tried, {:.0} a second; {} ways, {} kept, {} found",
        hunt.tried(),
        rates.back.per_second(),
        hunt.ways(),
        hunt.kept(),
        hunt.found()
    )
}

/// Something that was found, and saved.
pub struct Find {
    fault: String,
    file: PathBuf,
    /// It happens again without those before.
    alone: bool,
    calls: usize,
    bytes: usize,
}

impl Find {
    pub fn new(fault: &str, file: PathBuf, alone: bool, input: &Input, sound: &Sparse) -> Find {
        let differing = input.image.differing(sound);
        let bytes = differing.iter().map(|(number, block)| {
            let old: [u8; BLOCK as usize] = sound.bytes(number * BLOCK);
            let pairs = old.iter().zip(block.iter());
            pairs.filter(|(a, b)| a != b).count()
        });
        Find {
            fault: fault.into(),
            file,
            alone,
            calls: input.calls.len(),
            bytes: bytes.sum(),
        }
    }

    pub fn tell(&self, out: &mut Output, global: &Global) -> Result<()> {
        if global.json {
            out.json(&json!({
                "found": self.fault, "file": self.file.display().to_string(),
                "alone": self.alone, "calls": self.calls, "bytes": self.bytes,
            }))?;
        } else {
            let how = match self.alone {
                true => format!("{} bytes and {} calls do it", self.bytes, self.calls),
                false => "not again when it is met alone".into(),
            };
            let fault = plain(self.fault.as_bytes());
            out.line(&format!("{fault}\n  {how}: {}", self.file.display()))?;
        }
        // It stays, whatever comes.
        out.flush()
    }
}

/// What a hunt came to.
pub struct End<'a> {
    pub hunt: &'a Hunt,
    pub rates: &'a Rates,
    pub began_with: usize,
    pub counts: bool,
    pub kernels: u64,
    pub seed: u64,
    pub took: Duration,
}

impl End<'_> {
    pub fn tell(&self, out: &mut Output, corpus: &Corpus, global: &Global) -> Result<()> {
        let (hunt, rates) = (self.hunt, self.rates);
        let [back, anew] = [&rates.back, &rates.anew].map(Rate::per_second);
        if global.json {
            let ways = self.counts.then_some(hunt.ways());
            return out.json(&json!({
                "tried": hunt.tried(), "found_in_all": hunt.found(), "ways": ways,
                "kept": hunt.kept(), "began_with": self.began_with,
                "seed": self.seed, "sum": format!("{:08x}", hunt.sum()),
                "a_second": back, "a_second_with_a_restart": anew,
                "kernels": self.kernels, "seconds": self.took.as_secs_f64(),
                "directory": corpus.dir().display().to_string(),
            }));
        }
        let ways = match self.counts {
            true => format!(", {} ways", hunt.ways()),
            false => String::new(),
        };
        out.line(&format!(
            "{} tried in {:.1} s{ways}; {} kept, {} found, in {}",
            hunt.tried(),
            self.took.as_secs_f64(),
            hunt.kept(),
            hunt.found(),
            corpus.dir().display()
        ))?;
        let beside = match rates.anew.count {
            0 => String::new(),
            n => format!(", {anew:.0} with a restart (of {n})"),
        };
        let kernels = self.kernels;
        out.line(&format!(
            "{back:.0} a second by going back{beside}; {kernels} kernels were booted"
        ))
    }
}

/// What came of meeting something again.
pub fn replayed(
    out: &mut Output,
    read: &Reproducer,
    found: Option<&str>,
    met: &Met,
    global: &Global,
) -> Result<()> {
    let words = match met {
        Met::Outcome(outcome) => outcome.died.as_deref().unwrap_or_default(),
        _ => "",
    };
    let results = match met {
        Met::Outcome(outcome) => &outcome.results[..],
        _ => &[],
    };
    if global.json {
        return out.json(&json!({
            "found": found, "expected": read.fault, "words": words, "errnos": results,
        }));
    }
    if global.verbose {
        out.text(&lines(&read.calls))?;
        out.line(&format!("errors: {results:?}"))?;
    }
    match found {
        None => out.line("nothing is wrong with it"),
        Some(found) => {
            out.line(&plain(found.as_bytes()))?;
            words
                .lines()
                .try_for_each(|line| out.line(&format!("  {}", plain(line.as_bytes()))))
        }
    }
}

//! What was measured, on what, and how.

use crate::machine::Machine;
use crate::promise::Promise;
use crate::sample::Sample;
use crate::target::{self, Verdict};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The subject that the promises are about.
pub const TANE: &str = "tane";
/// The kernel that runs this process.
pub const HOST: &str = "host";
/// What the machine's memory allows.
pub const MEMCPY: &str = "memcpy";

/// To be raised when a reader of the JSON would have to change.
const FORMAT: u32 = 2;

const METHOD: &str = "Contestants take turns, each round beginning with another one (guestfish, \
which takes long, has its turns when the others have had theirs); the first \
round is not counted. Figures are medians with quartiles; ratios are medians of the ratios of \
runs that were measured in the same round. Files are in the page cache unless a row says cold: a \
cold start is a new process, not a cold disk. Whole processes are timed from spawn to exit, a \
mount with its unmount. Every result is compared with what went in, outside the timed part, as is \
deleting it. System calls are timed in batches of some milliseconds, nine for each run; the \
host's are made by the syscall instruction itself, without a library.";

#[derive(Deserialize, Serialize)]
pub struct Report {
    pub format: u32,
    pub machine: Machine,
    pub method: String,
    pub runs: u32,
    /// Ended before everything was measured.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// What was to be measured, in the table's order.
    pub promises: Vec<Promise>,
    pub figures: Vec<Figure>,
    pub missing: Vec<Missing>,
    /// Of every two subjects of a promise.
    pub ratios: Vec<Ratio>,
    pub verdicts: Vec<Judged>,
}

#[derive(Deserialize, Serialize)]
pub struct Figure {
    pub promise: String,
    pub subject: String,
    pub unit: String,
    /// What exactly was measured, where that depends on the machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    #[serde(flatten)]
    pub sample: Sample,
}

/// What could not be measured, and why.
#[derive(Deserialize, Serialize)]
pub struct Missing {
    pub promise: String,
    pub subject: String,
    pub why: String,
}

/// How many times what `to` takes `of` takes.
#[derive(Deserialize, Serialize)]
pub struct Ratio {
    pub promise: String,
    pub of: String,
    pub to: String,
    pub median: f64,
    pub lower: f64,
    pub upper: f64,
}

#[derive(Deserialize, Serialize)]
pub struct Judged {
    pub promise: String,
    pub target: String,
    #[serde(flatten)]
    pub verdict: Verdict,
}

impl Report {
    pub fn new(machine: Machine, runs: u32, promises: Vec<Promise>) -> Self {
        Self {
            format: FORMAT,
            machine,
            method: METHOD.into(),
            runs,
            interrupted: false,
            promises,
            figures: Vec::new(),
            missing: Vec::new(),
            ratios: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    #[cfg(test)]
    pub fn empty() -> Self {
        Self::new(Machine::default(), 1, Vec::new())
    }

    #[cfg(test)]
    pub fn add(&mut self, promise: &Promise, subject: &str, sample: Sample) {
        self.add_noted(promise, subject, "", sample);
    }

    pub fn add_noted(&mut self, promise: &Promise, subject: &str, note: &str, sample: Sample) {
        self.figures.push(Figure {
            promise: promise.name.clone(),
            subject: subject.into(),
            unit: promise.unit.clone(),
            note: note.into(),
            sample,
        });
    }

    pub fn miss(&mut self, promise: &Promise, subject: &str, why: &str) {
        self.missing.push(Missing {
            promise: promise.name.clone(),
            subject: subject.into(),
            why: why.trim().into(),
        });
    }

    pub fn of<'a>(&'a self, promise: &'a Promise) -> impl Iterator<Item = &'a Figure> {
        self.figures.iter().filter(|f| f.promise == promise.name)
    }

    pub fn missing_of<'a>(&'a self, promise: &'a Promise) -> impl Iterator<Item = &'a Missing> {
        self.missing.iter().filter(|m| m.promise == promise.name)
    }

    pub fn figure<'a>(&'a self, promise: &'a Promise, subject: &str) -> Option<&'a Figure> {
        self.of(promise).find(|f| f.subject == subject)
    }

    /// How many times what `to` takes `of` takes.
    pub fn ratio(&self, promise: &Promise, of: &str, to: &str) -> Option<Sample> {
        let (of, to) = (self.figure(promise, of)?, self.figure(promise, to)?);
        Sample::ratio(&of.sample, &to.sample)
    }

    /// Whether we ourselves could be measured everywhere.
    pub fn is_complete(&self) -> bool {
        !self.missing.iter().any(|m| m.subject == TANE)
    }

    /// Ratios and verdicts, once everything is measured.
    pub fn conclude(&mut self) {
        let (mut ratios, mut verdicts) = (Vec::new(), Vec::new());
        for promise in &self.promises {
            let figures: Vec<_> = self.of(promise).collect();
            for of in &figures {
                for to in figures.iter().filter(|to| to.subject != of.subject) {
                    let Some(ratio) = Sample::ratio(&of.sample, &to.sample) else {
                        continue;
                    };
                    ratios.push(Ratio {
                        promise: promise.name.clone(),
                        of: of.subject.clone(),
                        to: to.subject.clone(),
                        median: ratio.median,
                        lower: ratio.lower,
                        upper: ratio.upper,
                    });
                }
            }
            verdicts.push(Judged {
                promise: promise.name.clone(),
                target: promise.target_text(),
                verdict: target::judge(promise, self),
            });
        }
        self.ratios = ratios;
        self.verdicts = verdicts;
    }

    pub fn json(&self) -> Result<String, String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        Ok(text + "\n")
    }

    pub fn read(path: &Path) -> Result<Self, String> {
        let error = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| error(&e))?;
        let report: Self = serde_json::from_str(&text).map_err(|e| error(&e))?;
        if report.format != FORMAT {
            let text = format!("format {} where this is for {FORMAT}", report.format);
            return Err(error(&text));
        }
        Ok(report)
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        std::fs::write(path, self.json()?).map_err(|e| format!("{}: {e}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promise::Set;
    use crate::target::Target;

    fn sample() -> Report {
        let row = Promise::new(
            "getppid",
            Set::Syscalls,
            "getppid",
            "ns",
            Target::Faster(16.0),
        );
        let bulk = Promise::new("pread-4k", Set::Ramfs, "pread", "ns", Target::None);
        let bulk = bulk.at("read", 4096.0, 4096);
        let mut report = Report::new(Machine::default(), 3, vec![row.clone(), bulk.clone()]);
        report.add(&row, TANE, Sample::of(vec![10.0, 11.0, 10.0]).unwrap());
        report.add(&row, HOST, Sample::of(vec![160.0, 165.0, 170.0]).unwrap());
        report.add_noted(&bulk, HOST, "ramfs", Sample::of(vec![400.0]).unwrap());
        report.miss(&bulk, TANE, "no image");
        report.conclude();
        report
    }

    #[test]
    fn a_report_comes_back_from_its_json_as_it_was() {
        let first = sample();
        let path = std::env::temp_dir().join(format!("tane-report-{}", std::process::id()));
        first.write(&path).unwrap();
        let second = Report::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(first.json().unwrap(), second.json().unwrap());
        assert!(!second.is_complete());
    }

    #[test]
    fn the_json_has_machine_method_every_run_pairwise_ratios_and_verdicts() {
        let json: serde_json::Value = serde_json::from_str(&sample().json().unwrap()).unwrap();
        assert_eq!(json["format"], 2);
        assert!(json["machine"]["versions"].is_object());
        assert!(json["method"].as_str().unwrap().contains("take turns"));
        assert_eq!(json["promises"][1]["point"]["bytes"], 4096);
        assert_eq!(json["figures"][0]["runs"].as_array().unwrap().len(), 3);
        assert_eq!(json["figures"][2]["note"], "ramfs");
        let ratios = json["ratios"].as_array().unwrap();
        let pair = |of: &str, to: &str| {
            let found = ratios.iter().find(|r| r["of"] == of && r["to"] == to);
            found.unwrap()["median"].as_f64().unwrap()
        };
        assert_eq!(pair("host", "tane"), 16.0);
        assert_eq!(pair("tane", "host"), 1.0 / 16.0);
        assert_eq!(json["verdicts"][0]["kept"], true);
        assert_eq!(json["verdicts"][0]["target"], "≥ 16×");
        assert!(json["verdicts"][1]["kept"].is_null());
        assert_eq!(json["missing"][0]["why"], "no image");
    }

    #[test]
    fn another_format_is_refused() {
        let path = std::env::temp_dir().join(format!("tane-format-{}", std::process::id()));
        let text = sample()
            .json()
            .unwrap()
            .replace("\"format\": 2", "\"format\": 1");
        std::fs::write(&path, text).unwrap();
        let error = Report::read(&path).map(drop).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("format 1"), "{error}");
    }
}

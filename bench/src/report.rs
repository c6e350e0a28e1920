//! What was measured, on what, and how.

use crate::machine::Machine;
use crate::paths::Paths;
use crate::promise::Promise;
use crate::sample::Sample;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The subject that the promises are about.
pub const TANE: &str = "tane";

const METHOD: &str = "Contestants take turns, each round beginning with another one; the first \
round is not counted. Files are in the page cache: a cold start is a new process, not a cold \
disk. Whole processes are timed from spawn to exit, a mount with its unmount. Every result is \
compared with what went in, outside the timed part, as is deleting it. System calls are timed in \
batches of some milliseconds, nine for each run.";

#[derive(Deserialize, Serialize)]
pub struct Report {
    pub machine: Machine,
    pub method: String,
    pub runs: u32,
    pub figures: Vec<Figure>,
    pub missing: Vec<Missing>,
}

#[derive(Deserialize, Serialize)]
pub struct Figure {
    pub promise: String,
    pub subject: String,
    pub unit: String,
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

impl Report {
    pub fn new(paths: &Paths, runs: u32) -> Self {
        Self {
            machine: Machine::look(paths),
            method: METHOD.into(),
            runs,
            figures: Vec::new(),
            missing: Vec::new(),
        }
    }

    pub fn add(&mut self, promise: &Promise, subject: &str, sample: Sample) {
        self.figures.push(Figure {
            promise: promise.name.into(),
            subject: subject.into(),
            unit: promise.unit.into(),
            sample,
        });
    }

    pub fn miss(&mut self, promise: &Promise, subject: &str, why: &str) {
        self.missing.push(Missing {
            promise: promise.name.into(),
            subject: subject.into(),
            why: why.trim().into(),
        });
    }

    pub fn of<'a>(&'a self, promise: &'a Promise) -> impl Iterator<Item = &'a Figure> {
        self.figures.iter().filter(|f| f.promise == promise.name)
    }

    /// Whether we ourselves could be measured everywhere.
    pub fn is_complete(&self) -> bool {
        !self.missing.iter().any(|m| m.subject == TANE)
    }

    pub fn read(path: &Path) -> Result<Self, String> {
        let error = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(path).map_err(|e| error(&e))?;
        serde_json::from_str(&text).map_err(|e| error(&e))
    }

    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        std::fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))
    }
}

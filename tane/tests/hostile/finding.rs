//! What came of an image, and of the kernel that met it.

use serde_json::{json, Value};
use std::time::Duration;
use tane::Kernel;
use tane_hostile::{place, warnings};

#[derive(Default)]
pub struct Outcome {
    /// "refused", "errors", "fine", "died"; or what should not be.
    pub result: &'static str,
    /// What the caller was told.
    pub error: Option<String>,
    pub took: Duration,
    pub warnings: Vec<String>,
    /// Where the kernel died.
    pub place: Option<String>,
    pub oops: Option<String>,
    /// Whether a fresh kernel dies of it too.
    pub alone: Option<bool>,
}

impl Outcome {
    pub fn died(&self) -> bool {
        self.result == "died"
    }

    pub fn line(&self, seed: u64) -> Value {
        json!({
            "seed": seed, "result": self.result, "error": self.error,
            "ms": self.took.as_millis() as u64, "warnings": self.warnings,
            "place": self.place, "oops": self.oops, "alone": self.alone,
        })
    }
}

pub fn outcome(kernel: &Kernel, result: tane::Result<u32>, took: Duration, log: &str) -> Outcome {
    let mut outcome = Outcome {
        took,
        warnings: warnings(log),
        ..Outcome::default()
    };
    outcome.result = match &result {
        _ if !kernel.is_alive() => "died",
        Err(error) if !says_what(error) => "no useful error",
        Err(_) => "refused",
        Ok(0) => "fine",
        Ok(_) => "errors",
    };
    outcome.error = result.err().map(|error| error.to_string());
    if outcome.died() {
        let words = kernel.last_words();
        outcome.place = Some(place(&words));
        outcome.oops = Some(words);
    }
    outcome
}

/// An error names what was done to what, and a number of Linux's.
fn says_what(error: &tane::Error) -> bool {
    let known = (1..4096).contains(&error.errno());
    known && !error.action().is_empty() && (error.path().is_some() || error.text().is_some())
}

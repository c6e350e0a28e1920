//! What came of an image, and of the kernel that met it.

use serde_json::{json, Value};
use std::time::Duration;
use tane::Kernel;

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

/// Not what file systems say of themselves in the same word.
pub const WARNING: &str = "WARNING: CPU: ";

/// "WARNING: CPU: 0 PID: 18 at fs/x/y.c:12 function+0x1/0x2": place and function.
fn warnings(log: &str) -> Vec<String> {
    let lines = log.lines().filter(|line| line.contains(WARNING));
    let places = lines.map(|line| match line.split_once(" at ") {
        Some((_, place)) => without_offsets(place),
        None => line.to_owned(),
    });
    places.collect()
}

/// Nor the directory that Linux was built in.
fn without_offsets(text: &str) -> String {
    let word = |word: &str| {
        let below = word
            .strip_prefix("../")
            .and_then(|path| path.split_once('/'));
        let word = below.map_or(word, |(_, path)| path);
        word.split("+0x").next().unwrap_or_default().to_owned()
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// The kernel's own words for where it died: what, and in which function.
fn place(words: &str) -> String {
    let find = |mark: &str| {
        words
            .lines()
            .find_map(|line| line.split_once(mark))
            .map(|(_, rest)| rest)
    };
    let function = find("RIP: ").map(|rest| {
        let rest = rest.strip_prefix("0010:").unwrap_or(rest);
        rest.split(['+', ' ']).next().unwrap_or_default().to_owned()
    });
    let what = [
        "kernel BUG at ",
        "BUG: ",
        "Oops: ",
        "Kernel panic - not syncing: ",
    ];
    let what = what.iter().find_map(|mark| {
        let rest = find(mark)?;
        let rest = rest.split(" at address").next().unwrap_or(rest);
        // "division error at 000053c61ea72ca5"
        let is_address = |word: &str| word.len() == 16 && u64::from_str_radix(word, 16).is_ok();
        let bare = rest.split_once(" at ").filter(|(_, at)| is_address(at));
        let rest = bare.map_or(rest, |(bare, _)| bare);
        Some(format!("{}{}", mark, without_offsets(rest)))
    });
    let what = what.unwrap_or_else(|| words.lines().next().unwrap_or_default().to_owned());
    match function {
        Some(function) => format!("{what}, in {function}"),
        None => what,
    }
}

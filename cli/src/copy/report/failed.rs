//! What was not copied: all of it by name, the first few of each kind on the terminal.

use crate::names;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use tane_linux::Errno;

/// Errors of one kind that are printed before they are only counted.
const SHOWN: u64 = 10;

struct One {
    path: Vec<u8>,
    why: String,
    error: Option<Errno>,
}

#[derive(Default)]
pub struct Failed {
    all: Vec<One>,
    /// By kind: the error, or what there is in place of one.
    counts: BTreeMap<String, u64>,
    stopped: Option<Errno>,
    untried: u64,
}

impl Failed {
    /// Whether it is to be printed.
    pub fn add(&mut self, path: &[u8], why: String, error: Option<Errno>) -> bool {
        // What is said of it may name the file.
        let kind = error.map_or_else(|| why.clone(), |e| e.to_string());
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let shown = *count <= SHOWN;
        self.all.push(One {
            path: path.into(),
            why,
            error,
        });
        shown
    }

    pub fn stop(&mut self, why: Errno) {
        self.stopped = Some(why);
    }

    pub fn stopped(&self) -> Option<Errno> {
        self.stopped
    }

    /// What came after the stop. All of it is one line on the terminal.
    pub fn add_untried(&mut self, path: &[u8]) {
        self.untried += 1;
        let why = match self.stopped {
            Some(e) => format!("not tried: {e}"),
            None => "not tried".into(),
        };
        self.all.push(One {
            path: path.into(),
            why,
            error: self.stopped,
        });
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.stopped.is_none()
    }

    /// What was not printed. `verbose`: all errors were.
    pub fn summary(&self, verbose: bool) -> Vec<String> {
        let cut = self.counts.iter().filter(|(_, count)| **count > SHOWN);
        let more = |(kind, count): (&String, &u64)| {
            let more = count - SHOWN;
            format!("{kind}: {more} more not copied (-v or --json names each)")
        };
        let mut lines: Vec<_> = match verbose {
            true => Vec::new(),
            false => cut.map(more).collect(),
        };
        if let Some(e) = self.stopped {
            let untried = match self.untried {
                0 => String::new(),
                n => format!("; {n} not copied (-v or --json names each)"),
            };
            lines.push(format!("stopped: {e}{untried}"));
        }
        lines
    }

    pub fn json(&self) -> Vec<Value> {
        let one = |one: &One| {
            let mut object = Map::new();
            names::put(&mut object, "path", &one.path);
            if let Some(e) = one.error {
                object.insert("errno".into(), e.0.into());
            }
            object.insert("why".into(), one.why.as_str().into());
            Value::from(object)
        };
        self.all.iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_of_a_kind_are_shown_and_all_are_named() {
        let mut failed = Failed::default();
        let shown = |failed: &mut Failed, n: usize, why: &str| {
            let add = |i| failed.add(format!("{why}/{i}").as_bytes(), why.into(), None);
            (0..n).map(add).filter(|shown| *shown).count()
        };
        assert_eq!(shown(&mut failed, 25, "full"), 10);
        assert_eq!(shown(&mut failed, 3, "odd"), 3);
        let lines = ["full: 15 more not copied (-v or --json names each)"];
        assert_eq!(failed.summary(false), lines);
        assert_eq!(failed.summary(true), [""; 0]);
        assert_eq!(failed.json().len(), 28);
        let full = Errno(libc::ENOSPC);
        for n in 0..11 {
            let shown = failed.add(b"f", format!("full at {n}"), Some(full));
            assert_eq!(shown, n < 10);
        }
        let line = "no space left on device: 1 more not copied (-v or --json names each)";
        assert_eq!(failed.summary(false)[1], line);
        failed.stop(Errno(libc::ENOSPC));
        failed.add_untried(b"late");
        let last = "stopped: no space left on device; 1 not copied (-v or --json names each)";
        assert_eq!(failed.summary(true), [last]);
        assert_eq!(
            failed.json()[39]["why"],
            "not tried: no space left on device"
        );
    }
}

//! The list of a suite's failures that are known: `run/suites/NAME.expected`, a line each
//! with the test's name and the reason.

use super::Outcome;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// `host:` on the host it fails too, as the same user.
    Host,
    /// `varies:` it fails now and then.
    Varies,
    /// What this Linux does not do.
    Ours,
}

pub struct Known {
    pub kind: Kind,
    pub reason: String,
}

pub type Expected = BTreeMap<String, Known>;

pub fn path(suite: &str) -> PathBuf {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../run/suites");
    PathBuf::from(dir).join(format!("{suite}.expected"))
}

pub fn read(suite: &str) -> Expected {
    let path = path(suite);
    let list = std::fs::read_to_string(&path);
    parse(&list.unwrap_or_else(|e| panic!("{}: {e}", path.display())))
}

pub fn parse(list: &str) -> Expected {
    let mut expected = Expected::new();
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, reason) = line.split_once(' ').unwrap_or((line, ""));
        let reason = reason.trim();
        assert!(!reason.is_empty(), "{name} is listed without a reason");
        let kind = match reason {
            _ if reason.starts_with("host:") => Kind::Host,
            _ if reason.starts_with("varies:") => Kind::Varies,
            _ => Kind::Ours,
        };
        let reason = reason.to_owned();
        let twice = expected.insert(name.to_owned(), Known { kind, reason });
        assert!(twice.is_none(), "{name} is listed twice");
    }
    expected
}

/// What is to be said of outcomes that are not as the list says.
pub fn differences(expected: &Expected, units: &BTreeMap<String, Outcome>) -> Vec<String> {
    let mut said = Vec::new();
    for (unit, outcome) in units {
        for (name, why) in &outcome.failed {
            if !expected.contains_key(name) {
                said.push(format!("{name} failed, and is not listed: {why}"));
            }
        }
        let own = |name: &str| {
            let rest = name.strip_prefix(unit.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        // The longest unit's name that fits is the test's.
        let other = |name: &str| {
            let longer = units.keys().filter(|other| other.len() > unit.len());
            longer
                .into_iter()
                .any(|other| name.starts_with(&format!("{other}/")))
        };
        for (name, known) in expected {
            let ran = own(name) && !other(name);
            if ran && known.kind != Kind::Varies && !outcome.failed.contains_key(name) {
                said.push(format!(
                    "{name} does not fail any more: take it off the list"
                ));
            }
        }
    }
    said
}

//! build/run-results.md: a section for each suite, which a run of that suite replaces.

use super::expected::{Expected, Kind};
use super::{Outcome, Suite};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

const HEAD: &str = "# Suites of others, run by `tane run`

Written by `scripts/suites [NAME...]`. On the host the same tests run from the same tree, as the same
user, in namespaces of their own. The lists of failures that are known are in `run/suites`: a test that fails and is not
listed fails the run, and so does one that is listed and does not fail.
";

fn path() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../build/run-results.md"
    ))
}

pub type Units = BTreeMap<String, Outcome>;

/// What a suite's section says.
pub fn section(suite: &Suite, here: &Units, host: &Units, known: &Expected, when: &str) -> String {
    let count = |units: &Units| {
        let mut all = (0, 0, 0);
        for one in units.values() {
            all = (
                all.0 + one.passed,
                all.1 + one.failed.len(),
                all.2 + one.skipped,
            );
        }
        all
    };
    let mut out = format!(
        "## {}\n\n{}. {when}.\n\n",
        suite.name,
        suite.about.replace("  ", " ")
    );
    out += "| | units | passed | failed | skipped |\n|---|---|---|---|---|\n";
    for (place, units) in [("here", here), ("the host", host)] {
        let (passed, failed, skipped) = count(units);
        let n = units.len();
        let _ = writeln!(out, "| {place} | {n} | {passed} | {failed} | {skipped} |");
    }
    let failed =
        |units: &Units, name: &str| units.values().any(|one| one.failed.contains_key(name));
    let names = here.values().flat_map(|one| one.failed.iter());
    let mut rows = String::new();
    for (name, why) in names {
        let too = if failed(host, name) {
            "fails too"
        } else {
            "passes"
        };
        let reason = known.get(name).map_or(why.as_str(), |known| &known.reason);
        let _ = writeln!(rows, "| {name} | {too} | {} |", reason.replace('|', "\\|"));
    }
    if !rows.is_empty() {
        let _ = write!(
            out,
            "\n| failed here | on the host | reason |\n|---|---|---|\n{rows}"
        );
    }
    out
}

/// What the list says of the host and the host does not.
pub fn wrong_about_the_host(known: &Expected, here: &Units, host: &Units) -> Vec<String> {
    let failed =
        |units: &Units, name: &String| units.values().any(|one| one.failed.contains_key(name));
    let wrong = known.iter().filter(|(name, known)| {
        known.kind == Kind::Host && failed(here, name) && !failed(host, name)
    });
    wrong
        .map(|(name, _)| {
            format!("{name} passes on the host, and the list says that it fails there")
        })
        .collect()
}

pub fn replace(suite: &str, section: &str) {
    let old = std::fs::read_to_string(path()).unwrap_or_default();
    let mut sections = BTreeMap::new();
    for part in old.split("\n## ").skip(1) {
        let name = part.lines().next().unwrap_or_default().to_owned();
        sections.insert(name, format!("## {}\n", part.trim_end()));
    }
    sections.insert(suite.to_owned(), section.to_owned());
    let mut new = HEAD.to_owned();
    for section in sections.values() {
        new += "\n";
        new += section;
    }
    std::fs::write(path(), new).expect("build/run-results.md");
}

//! SQLite's own tests, of what it asks of its system: locks, journals, write-ahead logs and
//! the memory that their readers share, mapped files, threads, and processes that crash. A
//! unit is one of its scripts, which SQLite's test fixture runs, an interpreter of Tcl with
//! SQLite in it.

use super::{debian, foreign, image, runs, units, Extent, Outcome, Suite};
use crate::common::*;

pub const SUITE: Suite = Suite {
    name: "sqlite",
    about: "SQLite's own tests (Debian's source package `sqlite3`: the scripts of `test` that \
            are about the system), with the test fixture that is built of it",
    make,
    part: PART,
    other_version: || debian::other_version(SUITE.name, "sqlite3", "3.40"),
    kernel: "default",
    read,
};

const PART: &[&str] = &[
    "backup",
    "busy",
    "crash8",
    "exclusive",
    "exclusive2",
    "jrnlmode",
    "lock",
    "lock2",
    "lock5",
    "mmap1",
    "mmap2",
    "pager1",
    "shared",
    "superlock",
    "symlink",
    "syscall",
    "unixexcl",
    "wal",
    "wal2",
    "walro",
];

/// Beginnings of the names of those that all have.
const ALL: &[&str] = &[
    "attach",
    "backup",
    "busy",
    "crash",
    "delete_db",
    "exclusive",
    "filectrl",
    "insert",
    "io",
    "journal",
    "jrnlmode",
    "lock",
    "memdb",
    "mmap",
    "multiplex",
    "nolock",
    "oserror",
    "pager",
    "rollback",
    "savepoint",
    "select1",
    "shared",
    "superlock",
    "symlink",
    "sync",
    "syscall",
    "tempdb",
    "thread",
    "unixexcl",
    "vacuum",
    "wal",
];

/// Parts of names: faults that SQLite makes for itself, and what takes minutes anywhere.
const OTHERS: &[&str] = &[
    "_err",
    "fault",
    "ioerr",
    "malloc",
    "savepoint6",
    "slow",
    "thread003",
    "walbig",
    "walcrash3",
];

/// As a user: some tests look for what root is not refused.
const RUN: &str = r#"#!/bin/sh
if [ $(id -u) = 0 ] && setpriv --reuid 1000 true 2>/dev/null; then
	exec setpriv --reuid 1000 --regid 1000 --clear-groups "$0" "$@"
fi
mkdir /tmp/unit && cd /tmp/unit || exit 2
exec /suite/sqlite/testfixture "/suite/sqlite/test/$1.test" </dev/null 2>&1
"#;

fn make(s: &Scratch, extent: Extent) -> Result<Vec<String>, String> {
    let source = foreign("sqlite3", "fixture/testfixture")?;
    debian::root(s, &["libtcl8.6", "zlib1g", "tzdata"])?;
    let script = "set -e; mkdir root/suite/sqlite; cp -r \"$1/test\" root/suite/sqlite/; \
                  cp \"$1/fixture/testfixture\" root/suite/sqlite/";
    let mut build = s.tool("sh");
    succeed(build.args(["-c", script, "sh"]).arg(&source));
    let units = units(&source.join("test"), ".test", extent, PART, is_chosen);
    runs(s, RUN);
    image(s);
    Ok(units)
}

fn is_chosen(unit: &str) -> bool {
    ALL.iter().any(|start| unit.starts_with(start))
        && !OTHERS.iter().any(|part| unit.contains(part))
}

/// At its end a script says how many of its tests failed, and which.
fn read(said: &str) -> Outcome {
    const NAMES: &str = "!Failures on these tests: ";
    let mut outcome = Outcome::default();
    let mut counts = None;
    for line in said.lines() {
        if let Some((errors, rest)) = line.split_once(" errors out of ") {
            let tests = rest.split_whitespace().next().unwrap_or_default();
            counts = errors.parse().ok().zip(tests.parse().ok());
        }
        if let Some(names) = line.strip_prefix(NAMES) {
            for name in names.split_whitespace() {
                outcome.failed.insert(name.to_owned(), got(said, name));
            }
        }
        if line.contains("... Omitted") {
            outcome.skipped += 1;
        }
    }
    match counts {
        Some((errors, tests)) if errors == outcome.failed.len() => {
            outcome.passed = usize::saturating_sub(tests, errors);
        }
        // It ended before, or names a test twice: it has failed itself.
        _ => {
            let last = said.lines().last().unwrap_or_default();
            outcome.failed.insert(String::new(), last.to_owned());
        }
    }
    outcome
}

/// What it said of a test that failed.
fn got(said: &str, name: &str) -> String {
    let about = format!("! {name} ");
    let lines = said.lines().filter_map(|line| line.strip_prefix(&about));
    lines.collect::<Vec<_>>().join(" | ")
}

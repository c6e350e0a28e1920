//! The help of verbs whose options others build on is what was kept of it in
//! cli/tests/golden/help. `TANE_GOLDEN=write` keeps what is said now, to be read and
//! committed with the change.

use crate::common::*;
use std::path::Path;

#[track_caller]
fn is_what_was_kept(verb: &str) {
    let s = Scratch::new();
    let mut command = s.tane();
    // As wide as it gets, whoever looks.
    let output = succeed(command.args([verb, "--help"]).env("COLUMNS", "120"));
    let said = text(&output.stdout);
    let kept = format!("tests/golden/help/{verb}");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(kept);
    if std::env::var_os("TANE_GOLDEN").is_some_and(|what| what == "write") {
        std::fs::create_dir_all(kept.parent().expect("a parent")).expect("a directory");
        return std::fs::write(&kept, said).expect("to keep it");
    }
    let known = std::fs::read_to_string(&kept).expect("what was kept");
    for (number, (said, known)) in said.lines().zip(known.lines()).enumerate() {
        assert_eq!(said, known, "line {} of {}", number + 1, kept.display());
    }
    assert_eq!(said, known, "{}", kept.display());
}

#[test]
fn of_trace() {
    is_what_was_kept("trace");
}

#[test]
fn of_probe() {
    is_what_was_kept("probe");
}

#[test]
fn of_fuzz() {
    is_what_was_kept("fuzz");
}

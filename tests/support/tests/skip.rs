//! A test that lacks a tool is skipped in words; under CI it fails.

use std::path::Path;
use std::process::{Command, Output};

#[test]
#[ignore = "the next tests run it"]
fn lacks_a_tool() {
    assert!(tane_test_support::tool("e2fsprogs", "no-such-tool").is_none());
}

fn lacking(ci: &str, record: &Path) -> Output {
    std::fs::write(record, "").expect("an empty file");
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "lacks_a_tool"])
        .env("CI", ci)
        .env("TANE_TEST_SKIPPED", record)
        .output()
        .expect("runs")
}

#[test]
fn a_missing_tool_is_recorded_with_the_test_and_the_package() {
    let record = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    assert!(lacking("", &record).status.success());
    let line = std::fs::read_to_string(record).expect("the record");
    assert!(line.starts_with("skipped: skip-"), "{line}");
    assert!(line.contains("::lacks_a_tool: no no-such-tool: "), "{line}");
    assert!(line.contains("e2fsprogs") && line.ends_with('\n'), "{line}");
}

#[test]
fn a_missing_tool_is_a_failure_under_ci() {
    let record = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failed");
    assert!(!lacking("true", &record).status.success());
    assert_eq!(std::fs::read_to_string(record).expect("the record"), "");
}

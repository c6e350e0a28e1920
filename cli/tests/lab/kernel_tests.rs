//! Promises of `tane kernel test`: Linux's own tests, by their names.

use crate::common::{exit, succeed, text, Scratch};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn test(s: &Scratch, image: &Path, words: &[&str]) -> Command {
    let mut command = s.tane();
    command.arg("--kernel").arg(image);
    command.args(["kernel", "test"]).args(words);
    command
}

#[test]
fn the_tests_of_a_name_run_and_no_others() {
    let Some(lab) = tane_test_support::image("lab") else {
        return;
    };
    let s = Scratch::new();
    let output = succeed(&mut test(&s, &lab, &["kprobes_test"]));
    let said = text(&output.stdout);
    assert!(said.starts_with("KTAP version 1\n1..1\n"), "{said}");
    assert!(said.contains("    ok 1 test_kprobe\n"), "{said}");
    assert!(said.ends_with("\nok 1 kprobes_test\n"), "{said}");
    let counts = text(&output.stderr);
    assert!(counts.contains(" passed, 0 failed"), "{counts}");

    // One of them, as objects.
    let words = ["--json", "kprobes_test.test_kretprobe"];
    let output = succeed(&mut test(&s, &lab, &words));
    let said = text(&output.stdout);
    let lines: Vec<Value> = said
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert_eq!(lines[0]["test"], "test_kretprobe");
    assert_eq!(lines[0]["result"], "passed");
}

#[test]
fn all_tests_are_named_without_running() {
    let Some(lab) = tane_test_support::image("lab") else {
        return;
    };
    let s = Scratch::new();
    let output = succeed(&mut test(&s, &lab, &["--list"]));
    let said = text(&output.stdout);
    let all: Vec<_> = said.lines().collect();
    assert!(all.contains(&"kprobes_test.test_kprobe"), "{said}");
    assert!(
        all.iter().any(|name| name.starts_with("xarray_example_")),
        "{said}"
    );
    let output = succeed(&mut test(&s, &lab, &["--list", "fprobe_test"]));
    let said = text(&output.stdout);
    assert!(
        said.lines().all(|name| name.starts_with("fprobe_test.")),
        "{said}"
    );
    assert!(said.lines().count() >= 4, "{said}");
}

#[test]
fn a_name_of_no_test_and_an_image_without_tests_are_told() {
    let Some(lab) = tane_test_support::image("lab") else {
        return;
    };
    let s = Scratch::new();
    let output = exit(&mut test(&s, &lab, &["nothing_at_all"]), 2);
    assert!(text(&output.stderr).contains("--list"), "{output:?}");
    exit(&mut test(&s, &lab, &["two words"]), 2);
    let Some(tiny) = tane_test_support::image("tiny") else {
        return;
    };
    let output = exit(&mut test(&s, &tiny, &[]), 3);
    assert!(text(&output.stderr).contains("--kernel lab"), "{output:?}");
}

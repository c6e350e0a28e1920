//! Promises about `tane bench`: it becomes the `tane-bench` beside it or on PATH,
//! with the words as they were given, or says how to get one.

use crate::common::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command alone in a directory, as if it was all that is installed.
fn installed(s: &Scratch) -> PathBuf {
    std::fs::create_dir_all(s.join("bin")).expect("a directory");
    let to = s.join("bin/tane");
    // Not a copy: a child of another test's might have that open to be written still.
    std::fs::hard_link(env!("CARGO_BIN_EXE_tane"), &to).expect("a second name for tane");
    to
}

/// A program that prints its arguments, one a line.
fn put_bench(dir: &Path, greeting: &str) {
    let path = dir.join("tane-bench");
    let script = format!("#!/bin/sh\necho {greeting}\nprintf '%s\\n' \"$@\"\nexit 7\n");
    std::fs::write(&path, script).expect("a script");
    make_executable(&path);
}

fn command(s: &Scratch, tane: &Path) -> Command {
    let mut command = Command::new(tane);
    command.env(
        "PATH",
        format!("{}:/usr/bin:/bin", s.join("path").display()),
    );
    command
}

#[test]
fn without_a_tane_bench_it_says_how_to_get_one() {
    let s = Scratch::new();
    let tane = installed(&s);
    let output = exit(command(&s, &tane).args(["bench", "--list"]), 1);
    let said = text(&output.stderr);
    assert!(said.contains("tane-bench is not installed"), "{said}");
    assert!(
        said.contains("cargo build --release -p tane-bench"),
        "{said}"
    );
}

#[test]
fn the_one_beside_it_gets_every_word_and_its_exit_code_is_the_answer() {
    let s = Scratch::new();
    let tane = installed(&s);
    std::fs::create_dir_all(s.join("path")).expect("a directory");
    put_bench(&s.join("bin"), "beside");
    put_bench(&s.join("path"), "path");
    let words = ["bench", "--json", "--help", "-x", "two words"];
    let output = exit(command(&s, &tane).args(words), 7);
    let said = text(&output.stdout);
    assert_eq!(said, "beside\n--json\n--help\n-x\ntwo words\n");
}

#[test]
fn else_the_one_on_path_is_started() {
    let s = Scratch::new();
    let tane = installed(&s);
    std::fs::create_dir_all(s.join("path")).expect("a directory");
    put_bench(&s.join("path"), "path");
    let output = exit(command(&s, &tane).args(["--quiet", "bench", "--list"]), 7);
    assert_eq!(text(&output.stdout), "path\n--quiet\n--list\n");
}

#[test]
fn its_manual_page_has_its_options_and_none_of_the_verbs() {
    let s = Scratch::new();
    succeed(s.tane().args(["generate", "gen"]));
    let page = text(&s.read("gen/tane-bench.1"));
    for option in ["only", "runs", "list", "output"] {
        assert!(
            page.contains(&format!("\\-\\-{option}")),
            "no {option}: {page}"
        );
    }
    assert!(!page.contains("kernel\\fR"), "{page}");
}

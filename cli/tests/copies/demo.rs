//! What `make demo` shows holds, also on a small scale.

use crate::common::*;
use std::path::Path;
use std::process::Command;

#[test]
fn the_demo_finds_its_trees_unchanged_and_other_programs_content() {
    if !has_kernel() {
        return;
    }
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let build = std::fs::read_dir(top.join("build")).into_iter().flatten();
    let mut names = build.flatten().map(|entry| entry.file_name());
    if !names.any(|name| name.to_string_lossy().starts_with("linux-")) {
        return tane_test_support::skip("no Linux source in build: make kernel gets it");
    }
    let scratch = Scratch::new();
    let mut demo = Command::new(top.join("scripts/demo"));
    demo.arg(env!("CARGO_BIN_EXE_tane"))
        .arg(scratch.join("demo"));
    let said = text(&succeed(&mut demo).stdout).to_owned();
    assert!(said.contains("diff -r: the same"), "{said}");
    assert!(said.contains("Done in"), "{said}");
}

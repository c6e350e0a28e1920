//! The examples of docs/tl.md are what that says of them.

mod common;

use common::run;
use std::path::Path;
use tane_checked_tl::tl::{build, format, Options};

/// A part of the page in a fence: what it is, and its text.
fn parts() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tl.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut parts = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let text = lines.by_ref().take_while(|line| *line != "```");
            let text: String = text.map(|line| format!("{line}\n")).collect();
            parts.push((kind.to_owned(), text));
        }
    }
    parts
}

#[test]
fn examples_are_built_and_print_what_stands_behind_them() {
    let can_run = tane_checked_run::lacks().is_none();
    let (mut ran, mut wrong, mut built) = (0, 0, 0);
    let parts = parts();
    for (i, (kind, source)) in parts.iter().enumerate() {
        let behind = parts
            .get(i + 1)
            .map(|(kind, text)| (kind.as_str(), text.as_str()));
        let made = build("example.tl", source, Options::default());
        match kind.as_str() {
            "tl" => {
                let module = made.unwrap_or_else(|e| panic!("{e}"));
                let Some(("output", expected)) = behind else {
                    panic!("nothing stands behind {source}");
                };
                if can_run {
                    let printed = expected.as_bytes().to_vec();
                    assert_eq!(run(&module, "main", &[]), (Ok(0), printed));
                }
                ran += 1;
            }
            "tl files" => {
                made.unwrap_or_else(|e| panic!("{e}"));
                built += 1;
            }
            "tl wrong" => {
                let told = made.expect_err("it is wrong").to_string();
                assert_eq!(behind, Some(("error", format!("{told}\n").as_str())));
                wrong += 1;
            }
            _ => continue,
        }
        assert_eq!(
            format("example.tl", source).as_ref(),
            Ok(source),
            "as it is laid out"
        );
    }
    assert!(
        ran >= 5 && built >= 1 && wrong >= 2,
        "{ran} {built} {wrong}"
    );
}

//! The table of how images are opened (tests/opening), by the command.

use crate::opening_table::{Case, Images};
use std::path::Path;
use std::process::Command;

/// The errno, where the command knows one, and all that was said.
type Failed = (Option<i32>, String);

fn tane(case: &Case, dir: &Path, words: &[&str]) -> Result<String, Failed> {
    let mut tane = Command::new(env!("CARGO_BIN_EXE_tane"));
    tane.current_dir(dir).args(["--json", "--quiet"]);
    for name in ["format", "overlay", "verity"] {
        if let Some(value) = case.text(name) {
            tane.arg(format!("--{name}={value}"));
        }
    }
    for name in ["trust", "with", "lower"] {
        for value in case.list(name) {
            tane.arg(format!("--{name}={value}"));
        }
    }
    for secret in case.list("secrets") {
        std::fs::write(dir.join("secret"), secret).expect("a file");
        tane.arg("--passphrase-file=secret");
    }
    if let Some(bytes) = case.number("sector_size") {
        tane.arg(format!("--sector-size={bytes}"));
    }
    let output = tane.args(words).output().expect("it runs");
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = said.lines().last().unwrap_or_default();
    let object = serde_json::from_str::<serde_json::Value>(last);
    let errno = object
        .ok()
        .and_then(|object| object["error"]["errno"].as_i64());
    Err((errno.map(|errno| errno as i32), said))
}

fn try_case(case: &Case, dir: &Path) -> Result<(), Failed> {
    let at = |name: &str| format!("{}:/{name}", case.image);
    for (name, text) in &case.writes {
        std::fs::write(dir.join("text"), text).expect("a file");
        tane(case, dir, &["cp", "text", &at(name)])?;
    }
    if case.flag("write") && case.writes.is_empty() {
        tane(case, dir, &["mkdir", &at("new")])?;
    }
    if case.reads.is_empty() {
        tane(case, dir, &["cat", &at("f")])?;
    }
    for (name, text) in &case.reads {
        let found = tane(case, dir, &["cat", &at(name)])?;
        assert_eq!(&found, text, "{}: {name}", case.name);
    }
    for (name, text) in &case.writes {
        let found = tane(case, dir, &["cat", &at(name)]);
        match case.forgets {
            true => assert_eq!(found.expect_err("gone").0, Some(libc::ENOENT)),
            false => assert_eq!(&found?, text, "{}: {name}", case.name),
        }
    }
    Ok(())
}

#[test]
fn the_command_opens_what_the_table_says() {
    if !crate::common::has_kernel() {
        return;
    }
    let scratch = crate::common::Scratch::new();
    let Some(images) = Images::make(scratch.path(), "command") else {
        return;
    };
    images.try_all(|case| try_case(case, images.path()));
}

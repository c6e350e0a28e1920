//! The table of how images are opened (tests/opening), by C: a program that opens one and
//! reads or writes a file.

mod common;
#[path = "../../tests/opening/mod.rs"]
mod opening;

use common::{compile, has_kernel, libraries, SHARED};
use opening::{Case, Images};
use std::path::Path;
use std::process::Command;

type Failed = (Option<i32>, String);

/// What the program prints; the errno is its exit code.
fn opened(program: &Path, case: &Case, dir: &Path, words: &[&str]) -> Result<String, Failed> {
    let mut command = Command::new(program);
    command.current_dir(dir).env("LD_LIBRARY_PATH", libraries());
    command.arg(&case.image);
    if case.flag("write") {
        command.arg("write=1");
    }
    for name in ["format", "overlay", "verity"] {
        if let Some(value) = case.text(name) {
            command.arg(format!("{name}={value}"));
        }
    }
    for name in ["trust", "with", "lower", "secrets"] {
        for value in case.list(name) {
            command.arg(format!("{name}={value}"));
        }
    }
    if let Some(bytes) = case.number("sector_size") {
        command.arg(format!("sector_size={bytes}"));
    }
    let output = command.arg("--").args(words).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        code => Err((code, said)),
    }
}

fn try_case(program: &Path, case: &Case, dir: &Path) -> Result<(), Failed> {
    let opened = |words: &[&str]| opened(program, case, dir, words);
    for (name, text) in &case.writes {
        opened(&["write", name, text])?;
    }
    if case.reads.is_empty() {
        opened(&["read", "f"])?;
    }
    for (name, text) in &case.reads {
        assert_eq!(&opened(&["read", name])?, text, "{}: {name}", case.name);
    }
    for (name, text) in &case.writes {
        let found = opened(&["read", name]);
        match case.forgets {
            true => assert_eq!(found.expect_err("gone").0, Some(libc::ENOENT)),
            false => assert_eq!(&found?, text, "{}: {name}", case.name),
        }
    }
    Ok(())
}

#[test]
fn c_opens_what_the_table_says() {
    let Some(images) = Images::make(Path::new(env!("CARGO_TARGET_TMPDIR")), "c") else {
        return;
    };
    let program = images.path().join("program");
    compile(&program, "tests/opening.c", SHARED);
    if !has_kernel() {
        return;
    }
    images.try_all(|case| try_case(&program, case, images.path()));
}

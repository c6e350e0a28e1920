//! What the command says beside its results, on standard error: a line each, that begins
//! with "tane: ", or under `--json` one object each (docs/json.md).

use crate::failure::Failure;
use crate::names;
use serde_json::{json, Value};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Programs listen, by `--json`.
static JSON: AtomicBool = AtomicBool::new(false);

/// From now on as JSON, or for people.
pub fn as_json(yes: bool) {
    JSON.store(yes, Relaxed);
}

/// Whether programs listen.
pub fn is_json() -> bool {
    JSON.load(Relaxed)
}

/// Whether words of a command line that cannot be read ask for JSON.
pub fn is_asked_for<'a>(words: impl IntoIterator<Item = &'a std::ffi::OsString>) -> bool {
    let options = words.into_iter().take_while(|word| *word != "--");
    options.into_iter().any(|word| word == "--json")
}

/// Why something was not done.
pub fn failure(failure: &Failure) {
    if !failure.message.is_empty() {
        eprintln!("{}", line_of_failure(failure));
    }
}

pub fn line_of_failure(failure: &Failure) -> String {
    match JSON.load(Relaxed) {
        true => object("error", failure.json()),
        false => format!("tane: {failure}"),
    }
}

/// Something that was done is not all that was asked for.
pub fn warning(text: &str) {
    eprintln!("{}", line_of_warning(text));
}

pub fn line_of_warning(text: &str) -> String {
    match JSON.load(Relaxed) {
        true => object("warning", json!({"message": text})),
        false => format!("tane: warning: {text}"),
    }
}

/// What is good to know.
pub fn note(text: &str) {
    match JSON.load(Relaxed) {
        true => eprintln!("{}", object("note", json!({"message": text}))),
        false => eprintln!("tane: {text}"),
    }
}

/// What `-v` tells of a file: `what` was done to it, if that is not plain.
pub fn line_of_file(what: &str, path: &[u8]) -> String {
    let text = format!("{what}{}", names::plain(path));
    match JSON.load(Relaxed) {
        true => object(
            "note",
            names::named("path", path, json!({ "message": text })),
        ),
        false => text,
    }
}

/// What clap says of a command line: on standard output what was asked for (help).
pub fn usage(error: &clap::Error) {
    if error.use_stderr() && JSON.load(Relaxed) {
        failure(&Failure::of_command_line(error));
    } else {
        // Nobody is there to be told that nobody is there.
        let _ = error.print();
    }
}

fn object(kind: &str, value: Value) -> String {
    json!({ kind: value }).to_string()
}

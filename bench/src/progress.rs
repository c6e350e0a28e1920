//! What is being measured, while it is: one line that changes on a terminal,
//! one line for each row elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;

static BAR: OnceLock<ProgressBar> = OnceLock::new();
static PLAIN: OnceLock<u64> = OnceLock::new();

/// For so many rows.
pub fn begin(rows: usize, quiet: bool) {
    if quiet {
        return;
    }
    if !std::io::stderr().is_terminal() {
        let _ = PLAIN.set(rows as u64);
        return;
    }
    let bar = ProgressBar::new(rows as u64);
    let template = "{elapsed_precise} {bar:30} {pos}/{len}  {msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    let _ = BAR.set(bar);
}

/// The next row, the `at`-th from 0.
pub fn row(at: usize, name: &str) {
    if let Some(bar) = BAR.get() {
        bar.set_position(at as u64);
        bar.set_message(name.to_string());
    } else if let Some(rows) = PLAIN.get() {
        eprintln!("tane-bench: {}/{rows} {name}", at + 1);
    }
}

/// Within a row.
pub fn round(name: &str, round: u32, of: u32) {
    if let Some(bar) = BAR.get() {
        bar.set_message(format!("{name}, run {round} of {of}"));
    }
}

pub fn end() {
    if let Some(bar) = BAR.get() {
        bar.finish_and_clear();
    }
}

//! Progress on standard error: a bar for people, JSON lines for programs.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Mode {
    /// A bar if standard error is a terminal
    #[default]
    Auto,
    /// Nothing
    Never,
    /// A line of JSON every 100 ms
    Json,
}

enum Shown {
    Nothing,
    Bar(ProgressBar),
    Lines {
        totals: (u64, u64),
        last: Mutex<Instant>,
    },
}

pub struct Progress(Shown);

impl Progress {
    /// `totals` (files, bytes) is asked only if anything will be shown.
    pub fn new(mode: Mode, totals: impl FnOnce() -> (u64, u64)) -> Progress {
        match mode {
            Mode::Auto if std::io::stderr().is_terminal() => Self::bar(totals()),
            Mode::Auto | Mode::Never => Progress(Shown::Nothing),
            Mode::Json => {
                let last = Mutex::new(Instant::now());
                Progress(Shown::Lines {
                    totals: totals(),
                    last,
                })
            }
        }
    }

    fn bar((files, bytes): (u64, u64)) -> Progress {
        let bar =
            ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr_with_hz(10));
        let template = format!(
            "{{bar:30}} {{bytes}}/{{total_bytes}} {{msg}}/{files} files {{bytes_per_sec}} ETA {{eta}}"
        );
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.enable_steady_tick(INTERVAL);
        Progress(Shown::Bar(bar))
    }

    pub fn update(&self, files: u64, bytes: u64) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar(bar) => {
                bar.set_message(files.to_string());
                bar.set_position(bytes);
            }
            Shown::Lines { totals, last } => {
                let mut last = last.lock().unwrap_or_else(|p| p.into_inner());
                if last.elapsed() >= INTERVAL {
                    *last = Instant::now();
                    line(*totals, files, bytes, false);
                }
            }
        }
    }

    /// Prints a line on standard error without tearing the bar.
    pub fn print(&self, line: &str) {
        match &self.0 {
            Shown::Bar(bar) => bar.suspend(|| eprintln!("{line}")),
            _ => eprintln!("{line}"),
        }
    }

    pub fn finish(&self, files: u64, bytes: u64) {
        match &self.0 {
            Shown::Nothing => {}
            Shown::Bar(bar) => bar.finish_and_clear(),
            Shown::Lines { totals, .. } => line(*totals, files, bytes, true),
        }
    }
}

fn line((total_files, total_bytes): (u64, u64), files: u64, bytes: u64, done: bool) {
    eprintln!(
        "{}",
        json!({"event": "progress", "files": files, "bytes": bytes,
               "total_files": total_files, "total_bytes": total_bytes, "done": done})
    );
}

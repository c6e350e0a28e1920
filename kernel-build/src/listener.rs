// SPDX-License-Identifier: GPL-2.0-only
//! Who hears how far a build is, and may want it stopped.

use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Of all the columns of a terminal.
const WIDTH: usize = 78;
/// Between lines where nobody looks at a terminal.
const QUIET_INTERVAL: Duration = Duration::from_secs(30);

/// What a program that runs for long has done so far.
pub struct Step<'a> {
    /// What it is for.
    pub title: &'a str,
    /// Seconds since it began.
    pub seconds: u64,
    /// How many steps it told of.
    pub steps: usize,
    /// The last of them.
    pub last: &'a str,
    /// It has ended, well or not.
    pub finished: bool,
}

impl Step<'_> {
    /// A line for people, as long as a terminal is wide.
    pub fn line(&self) -> String {
        let (minutes, seconds) = (self.seconds / 60, self.seconds % 60);
        let last = if self.finished { "" } else { self.last };
        let (title, steps) = (self.title, self.steps);
        let line = format!("{title}: {minutes}:{seconds:02}, {steps} steps {last}");
        let line: String = line.chars().take(WIDTH).collect();
        line.trim_end().to_owned()
    }
}

/// Who hears it.
pub trait Listener {
    /// Something that is good to know.
    fn note(&self, text: &str);
    /// How far a program is; called no more often than [`Listener::interval`].
    fn progress(&self, step: &Step);
    /// How often to tell.
    fn interval(&self) -> Duration;
    /// Whether to end what runs, and to begin nothing more.
    fn is_stopped(&self) -> bool;
}

/// A person's terminal, or a log that stands for one: on standard error.
pub struct Terminal {
    is_terminal: bool,
}

impl Terminal {
    /// This process's standard error.
    pub fn new() -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        Self { is_terminal }
    }
}

impl Default for Terminal {
    fn default() -> Self {
        Self::new()
    }
}

impl Listener for Terminal {
    fn note(&self, text: &str) {
        eprintln!("{text}");
    }

    fn progress(&self, step: &Step) {
        let mut stderr = std::io::stderr();
        let line = step.line();
        // Nobody is there to be told that nobody is there.
        let _ = if !self.is_terminal {
            writeln!(stderr, "{line}")
        } else {
            let end = if step.finished { "\n" } else { "" };
            write!(stderr, "\r\x1b[K{line}{end}")
        };
    }

    fn interval(&self) -> Duration {
        match self.is_terminal {
            true => Duration::from_millis(200),
            false => QUIET_INTERVAL,
        }
    }

    fn is_stopped(&self) -> bool {
        false
    }
}

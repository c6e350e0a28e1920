//! How far a build is: a line that changes on a terminal, and one now and then elsewhere.

use crate::interrupt;
use crate::session::Global;
use crate::tell;
use std::io::IsTerminal;
use std::time::Duration;
use tane_kernel_build::{Listener, Step, Terminal};

pub struct Told {
    terminal: Terminal,
    /// Of a line that changes.
    is_live: bool,
    quiet: bool,
}

impl Told {
    pub fn new(global: &Global) -> Told {
        Told {
            terminal: Terminal::new(),
            is_live: std::io::stderr().is_terminal() && !global.json,
            quiet: global.quiet,
        }
    }
}

impl Listener for Told {
    fn note(&self, text: &str) {
        if !self.quiet {
            tell::note(text);
        }
    }

    fn progress(&self, step: &Step) {
        match self.is_live && !self.quiet {
            true => self.terminal.progress(step),
            false => self.note(&step.line()),
        }
    }

    fn interval(&self) -> Duration {
        self.terminal.interval().max(match self.is_live {
            true => Duration::ZERO,
            false => Duration::from_secs(30),
        })
    }

    fn is_stopped(&self) -> bool {
        interrupt::requested()
    }
}

//! Programs of the distribution that make file systems: what no system call does.

use crate::error::{Error, Result};
use std::path::PathBuf;
use std::process::Command;

/// A program, and the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// Its name.
    pub program: &'static str,
    /// The package's.
    pub package: &'static str,
}

impl Tool {
    /// Debian keeps these where an ordinary user's PATH does not look.
    pub fn find(self) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        let places = std::env::split_paths(&path).chain(more);
        let found = places
            .map(|dir| dir.join(self.program))
            .find(|p| p.is_file());
        found.ok_or_else(|| {
            let text = format!(
                "{} is not installed: Debian's package {} has it",
                self.program, self.package
            );
            Error::Failed(text, libc::ENOENT)
        })
    }

    /// The program, to be given arguments. It speaks English and knows no other
    /// time zone than UTC, so that it does the same everywhere.
    pub fn command(self) -> Result<Command> {
        let mut command = Command::new(self.find()?);
        command.env("LC_ALL", "C").env("TZ", "UTC");
        Ok(command)
    }
}

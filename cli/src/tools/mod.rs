//! Programs of the distribution that make, check and resize file systems: what no
//! system call does. They work on an ordinary file.

pub mod check;
pub mod mkfs;
pub mod online;
pub mod partition;

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::session::confines_session;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A program, and the Debian package that has it.
#[derive(Clone, Copy)]
pub struct Tool {
    pub program: &'static str,
    pub package: &'static str,
}

impl Tool {
    /// Debian keeps these where an ordinary user's PATH does not look.
    fn find(self) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let more = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
        let places = std::env::split_paths(&path).chain(more);
        let found = places
            .map(|dir| dir.join(self.program))
            .find(|p| p.is_file());
        found.ok_or_else(|| {
            Failure::new(
                SOME_FAILED,
                format!(
                    "{} is not installed: Debian's package {} has it",
                    self.program, self.package
                ),
            )
        })
    }

    /// The program, to be given arguments. It speaks English and knows no other
    /// time zone than UTC, so that it does the same everywhere.
    pub fn command(self) -> Result<Command> {
        if confines_session() {
            let text = "is a program of the host, and this session is in a jail (--no-jail)";
            let text = format!("{} {text}", self.program);
            return Err(Failure::new(SOME_FAILED, text));
        }
        let mut command = Command::new(self.find()?);
        command.env("LC_ALL", "C").env("TZ", "UTC");
        Ok(command)
    }

    /// Runs it to its end; an error says what it said. `fine`: exit codes that
    /// mean success.
    pub fn run(self, command: &mut Command, fine: &[i32]) -> Result<Output> {
        let output = command.stdin(Stdio::null()).output();
        let output =
            output.map_err(|e| Failure::new(SOME_FAILED, format!("{}: {e}", self.program)))?;
        if output
            .status
            .code()
            .is_some_and(|code| fine.contains(&code))
        {
            return Ok(output);
        }
        if interrupt::requested() {
            return Err(Failure::interrupted());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = match said.trim() {
            "" => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            said => said.to_owned(),
        };
        Err(Failure::new(
            SOME_FAILED,
            format!("{} failed ({}): {said}", self.program, output.status),
        ))
    }
}

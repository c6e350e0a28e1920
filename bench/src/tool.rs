//! Other people's programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// A program of this name, also where only root's PATH looks.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// A program of this name, or which package has it.
pub fn need(name: &str, package: &str) -> Result<PathBuf, String> {
    find(name).ok_or_else(|| format!("not installed: apt install {package}"))
}

/// 7-Zip under either of its names; the first is of the newer.
pub fn seven_zip() -> Result<PathBuf, String> {
    find("7zz").map_or_else(|| need("7z", "7zip (or p7zip-full)"), Ok)
}

/// Which of them that is, and its version: `7zz 22.01`.
pub fn which_seven_zip() -> String {
    let Ok(program) = seven_zip() else {
        return String::new();
    };
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let line = first_line(&name, &[]).unwrap_or_default();
    let is_version = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let version = line.split(' ').find(|w| is_version(w) && w.contains('.'));
    format!("{name} {}", version.unwrap_or_default())
}

/// Milliseconds since then.
pub fn ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

pub fn command<A: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(program);
    command.args(args).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// Run to the end; what it printed, or an error with its last line of stderr.
pub fn output(command: &mut Command) -> Result<Output, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(complaint(&name, &output.stderr))
}

/// Of a program that failed: the last line of its stderr.
pub fn complaint(name: &str, stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let last = text.lines().rfind(|l| !l.trim().is_empty());
    format!("{name}: {}", last.unwrap_or("failed"))
}

/// The first line a program prints, on either stream; nothing if it fails.
pub fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let output = output(&mut command(&find(program)?, args)).ok()?;
    let text = [output.stderr, output.stdout].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|l| !l.is_empty())?;
    Some(line.to_string())
}

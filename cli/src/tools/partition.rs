//! Partition tables, by sfdisk.

use super::Tool;
use crate::failure::{Failure, Result, SOME_FAILED};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

const SFDISK: Tool = Tool {
    program: "sfdisk",
    package: "fdisk",
};
/// The unit of its numbers.
const SECTOR: u64 = 512;

/// Gives partition `number` of the table in the file so many bytes. A GPT gets its
/// second copy at the end of the file, wherever it was.
pub fn resize(file: &Path, number: u32, size: u64) -> Result<()> {
    let mut moved = SFDISK.command()?;
    // Only a GPT has one; of other tables it refuses to.
    let _ = moved
        .args(["--quiet", "--relocate", "gpt-bak-std"])
        .arg(file)
        .stdin(Stdio::null())
        .output();
    let mut command = SFDISK.command()?;
    let number = number.to_string();
    command
        .args(["--quiet", "--no-reread", "--no-tell-kernel", "-N", &number])
        .arg(file)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let fail = |e: String| Failure::new(SOME_FAILED, format!("sfdisk failed: {e}"));
    let mut child = command.spawn().map_err(|e| fail(e.to_string()))?;
    if let Some(mut input) = child.stdin.take() {
        let line = format!(",{}\n", size / SECTOR);
        input
            .write_all(line.as_bytes())
            .map_err(|e| fail(e.to_string()))?;
    }
    let output = child.wait_with_output().map_err(|e| fail(e.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(fail(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}

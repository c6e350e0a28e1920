//! Partition tables, by sfdisk.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::programs::Tool;
use std::path::Path;

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
    moved.args(["--quiet", "--relocate", "gpt-bak-std"]);
    // Only a GPT has one; of other tables it refuses to.
    let _ = SFDISK.ask(moved.arg(file), &[]);
    let mut command = SFDISK.command()?;
    let number = number.to_string();
    command.args(["--quiet", "--no-reread", "--no-tell-kernel", "-N", &number]);
    let line = format!(",{}\n", size / SECTOR);
    let output = SFDISK.ask(command.arg(file), line.as_bytes())?;
    let fail = |e: String| Failure::new(SOME_FAILED, format!("sfdisk failed: {e}"));
    match output.status.success() {
        true => Ok(()),
        false => Err(fail(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        )),
    }
}

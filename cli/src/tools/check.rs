//! Checking file systems, by each one's own fsck.

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::programs::{tool, Tool};
use std::path::Path;

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Clean,
    Repaired,
    /// Errors are there, still or again.
    Damaged,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            State::Clean => "clean",
            State::Repaired => "repaired",
            State::Damaged => "damaged",
        }
    }
}

pub struct Outcome {
    pub state: State,
    pub program: &'static str,
    /// What the program said.
    pub said: String,
}

struct Checker {
    tool: Tool,
    look: &'static [&'static str],
    repair: &'static [&'static str],
    /// Exit codes.
    repaired: &'static [i32],
    damaged: &'static [i32],
}

/// What these return after a repair does not tell what there was, or is left.
const MUTE: [&str; 4] = ["jfs", "minix", "ntfs", "ntfs3"];

pub const NTFSFIX: Tool = tool("ntfsfix", "ntfs-3g");

fn checker(kind: &str) -> Option<Checker> {
    Some(match kind {
        "ext2" | "ext3" | "ext4" => Checker {
            tool: tool("e2fsck", "e2fsprogs"),
            look: &["-f", "-n"],
            repair: &["-f", "-y"],
            repaired: &[1, 2, 3],
            damaged: &[4, 5, 12],
        },
        "xfs" => Checker {
            tool: tool("xfs_repair", "xfsprogs"),
            look: &["-n", "-f"],
            repair: &["-f"],
            repaired: &[],
            damaged: &[1, 2],
        },
        "btrfs" => Checker {
            tool: tool("btrfs", "btrfs-progs"),
            look: &["check", "--readonly"],
            repair: &["check", "--repair", "--force"],
            repaired: &[],
            damaged: &[1],
        },
        "f2fs" => Checker {
            tool: tool("fsck.f2fs", "f2fs-tools"),
            look: &["--dry-run", "-f"],
            repair: &["-f"],
            repaired: &[1],
            damaged: &[4, 255],
        },
        "vfat" => Checker {
            tool: tool("fsck.vfat", "dosfstools"),
            look: &["-n"],
            repair: &["-a", "-w"],
            repaired: &[1],
            damaged: &[1],
        },
        "exfat" => Checker {
            tool: tool("fsck.exfat", "exfatprogs"),
            look: &["-n"],
            repair: &["-y"],
            repaired: &[1],
            damaged: &[1, 4, 5],
        },
        "jfs" => Checker {
            tool: tool("jfs_fsck", "jfsutils"),
            look: &["-f", "-n"],
            repair: &["-f", "-p"],
            repaired: &[1, 2],
            damaged: &[4],
        },
        "minix" => Checker {
            tool: tool("fsck.minix", "util-linux"),
            look: &["-f"],
            repair: &["-f", "-a"],
            repaired: &[3],
            damaged: &[4, 7],
        },
        // ntfsfix repairs what keeps NTFS from being mounted, and empties the journal;
        // the rest is for Windows's chkdsk. -d: what it could repair may be written
        // to, which Linux refuses as long as Windows is asked to look at it first.
        "ntfs" | "ntfs3" => Checker {
            tool: NTFSFIX,
            look: &["-n"],
            repair: &["-d"],
            repaired: &[],
            damaged: &[1],
        },
        _ => return None,
    })
}

/// The kinds that can be checked.
pub const KINDS: &str = "ext2, ext3, ext4, xfs, btrfs, f2fs, vfat, exfat, jfs, minix and ntfs";

/// Checks the one that fills the file; `repair` lets it be changed.
pub fn check(kind: &str, file: &Path, repair: bool) -> Result<Outcome> {
    let checker = checker(kind).ok_or_else(|| {
        let text = format!("{kind} cannot be checked: there are tools for {KINDS}");
        Failure::new(SOME_FAILED, text)
    })?;
    if !repair || !MUTE.contains(&kind) {
        return checker.run(kind, file, repair);
    }
    let before = checker.run(kind, file, false)?.state;
    let outcome = checker.run(kind, file, true)?;
    let state = match checker.run(kind, file, false)?.state {
        State::Clean if before == State::Damaged => State::Repaired,
        after => after,
    };
    Ok(Outcome { state, ..outcome })
}

impl Checker {
    fn run(&self, kind: &str, file: &Path, repair: bool) -> Result<Outcome> {
        let args = if repair { self.repair } else { self.look };
        let mut fine = vec![0];
        fine.extend(self.repaired);
        fine.extend(self.damaged);
        let mut command = self.tool.command()?;
        let output = self.tool.run(command.args(args).arg(file), &fine)?;
        let code = output.status.code().unwrap_or(-1);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        let state = match code {
            // It looks at what is not wrong enough for an exit code as well.
            0 if !repair && kind == "f2fs" && said.contains("[FAIL]") => State::Damaged,
            0 => State::Clean,
            code if repair && self.repaired.contains(&code) => State::Repaired,
            _ => State::Damaged,
        };
        Ok(Outcome {
            state,
            program: self.tool.program,
            said,
        })
    }
}

//! Programs of the distribution, and how they are run: by a process that meets no image, in a
//! jail of theirs. What is done by them is in `tools`.

mod execute;
mod runner;
mod shower;

pub use runner::{is_apart as runner_is_apart, start as start_runner};
pub use shower::{ask as ask_shown, start as start_shower};

use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::session::confined::confines_session;
use execute::{execute, Request, Word};
use std::io;
use std::path::PathBuf;
use std::process::{Command, Output};
use tane_make::Feed;

/// A program, and the Debian package that has it.
#[derive(Clone, Copy)]
pub struct Tool {
    pub program: &'static str,
    pub package: &'static str,
}

/// All that are run for a command in a jail.
const KNOWN: [Tool; 34] = [
    tool("btrfs", "btrfs-progs"),
    tool("btrfstune", "btrfs-progs"),
    tool("e2fsck", "e2fsprogs"),
    tool("fatlabel", "dosfstools"),
    tool("fsck.exfat", "exfatprogs"),
    tool("fsck.f2fs", "f2fs-tools"),
    tool("fsck.minix", "util-linux"),
    tool("fsck.vfat", "dosfstools"),
    tool("jfs_fsck", "jfsutils"),
    tool("jfs_mkfs", "jfsutils"),
    tool("jfs_tune", "jfsutils"),
    tool("mke2fs", "e2fsprogs"),
    tool("mkfs.btrfs", "btrfs-progs"),
    tool("mkfs.erofs", "erofs-utils"),
    tool("mkfs.exfat", "exfatprogs"),
    tool("mkfs.f2fs", "f2fs-tools"),
    tool("mkfs.minix", "util-linux"),
    tool("mkfs.nilfs2", "nilfs-tools"),
    tool("mkfs.vfat", "dosfstools"),
    tool("mkfs.xfs", "xfsprogs"),
    tool("mkntfs", "ntfs-3g"),
    tool("mksquashfs", "squashfs-tools"),
    tool("mkswap", "util-linux"),
    tool("mkudffs", "udftools"),
    tool("ntfsfix", "ntfs-3g"),
    tool("ntfslabel", "ntfs-3g"),
    tool("ntfsresize", "ntfs-3g"),
    tool("resize.f2fs", "f2fs-tools"),
    tool("resize2fs", "e2fsprogs"),
    tool("sfdisk", "fdisk"),
    tool("tune.exfat", "exfatprogs"),
    tool("tune2fs", "e2fsprogs"),
    tool("xfs_db", "xfsprogs"),
    tool("xfs_repair", "xfsprogs"),
];

pub const fn tool(program: &'static str, package: &'static str) -> Tool {
    Tool { program, package }
}

impl From<tane_make::Tool> for Tool {
    fn from(tool: tane_make::Tool) -> Self {
        self::tool(tool.program, tool.package)
    }
}

impl From<Tool> for tane_make::Tool {
    fn from(Tool { program, package }: Tool) -> Self {
        tane_make::Tool { program, package }
    }
}

impl Tool {
    fn known(program: &str) -> Option<Tool> {
        KNOWN.into_iter().find(|tool| tool.program == program)
    }

    fn find(self) -> Result<PathBuf> {
        Ok(tane_make::Tool::from(self).find()?)
    }

    /// The program, to be given arguments. It speaks English and knows no other
    /// time zone than UTC, so that it does the same everywhere.
    pub fn command(self) -> Result<Command> {
        if confines_session() {
            let text = "is a program of the host, which a session in a jail cannot start";
            let failure = Failure::new(SOME_FAILED, format!("{} {text}", self.program));
            return Err(failure.remedy("end the session and give tane that command alone"));
        }
        Ok(tane_make::Tool::from(self).command()?)
    }

    /// What comes of it, whatever its exit code; `input` is for its standard input.
    pub fn ask(self, command: &Command, input: &[u8]) -> Result<Output> {
        let here = || execute(Request::of(command, input), None, &mut || Word::Gone);
        self.told(runner::run(self, command, input).unwrap_or_else(here))
    }

    /// The same of one that reads what `feed` writes, and takes itself for this user and group:
    /// by who runs programs, who has a pipe for each time.
    pub fn ask_fed(
        self,
        command: &Command,
        owner: Option<(u32, u32)>,
        feed: &mut Feed<'_>,
    ) -> Result<Output> {
        self.told(runner::feed(self, command, owner, feed))
    }

    fn told(self, output: io::Result<Output>) -> Result<Output> {
        output.map_err(|e| Failure::new(SOME_FAILED, format!("{}: {e}", self.program)))
    }

    /// Runs it to its end; an error says what it said. `fine`: exit codes that
    /// mean success.
    pub fn run(self, command: &mut Command, fine: &[i32]) -> Result<Output> {
        let output = self.ask(command, &[])?;
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

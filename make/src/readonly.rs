//! squashfs and erofs, which Linux reads but does not write: the distribution's
//! own programs make them.
//!
//! mksquashfs takes an archive. mkfs.erofs takes a directory, which cannot have
//! the right owners unless one is root: so Linux makes an ext4 of the tree, and
//! FUSE shows it.

use super::emit::Emit;
use super::fill::Filling;
use super::limits;
use super::tree::ROOT;
use crate::error::{Error, Result};
use crate::means::{run, success, By, Means};
use crate::tool::Tool;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use tane_copy::tar::pack;
use tane_linux::{Host, Sys, Time};

static HOST: Host = Host;

pub const SQUASHFS: Tool = Tool {
    program: "mksquashfs",
    package: "squashfs-tools",
};
pub const EROFS: Tool = Tool {
    program: "mkfs.erofs",
    package: "erofs-utils",
};

/// Replaces the file by a squashfs; `time` in seconds.
pub fn squashfs(
    to: &Path,
    filling: &Filling,
    time: u64,
    compression: Option<&str>,
    by: By,
) -> Result<()> {
    let root = filling.tree.node(ROOT);
    let mut stat = root.stat;
    filling.times.of(&mut stat);
    let mut command = by.means.command(SQUASHFS)?;
    command
        // Also for the root's time, which 4.5 takes from the clock. It refuses later ones.
        .env("SOURCE_DATE_EPOCH", time.min(u32::MAX.into()).to_string())
        .arg("-")
        .arg(to)
        .args(["-tar", "-noappend", "-no-progress", "-quiet"])
        // It does not take these from an archive.
        .args(["-root-mode", &format!("{:o}", stat.permissions())])
        .args(["-root-uid", &stat.uid.to_string()])
        .args(["-root-gid", &stat.gid.to_string()])
        .args(["-root-time", &limits::shortened(stat.mtime).sec.to_string()]);
    match compression {
        Some("none") => {
            command.args(["-noI", "-noD", "-noF", "-noX"]);
        }
        Some(name) => {
            command.args(["-comp", name]);
        }
        None => {}
    }
    // SAFETY: cannot fail.
    let ours = unsafe { (libc::geteuid(), libc::getegid()) };
    let owner = (stat.uid, stat.gid);
    let owner = match ours != owner && ignores_root_uid(by.means)? {
        true => Some(owner),
        false => None,
    };
    let fail = |e: &dyn std::fmt::Display| Error::failed(format!("{}: {e}", SQUASHFS.program));
    let mut packed = Ok(());
    let mut pack_into = |input: File| {
        let mut out = BufWriter::with_capacity(1 << 18, input);
        let emit = |to| {
            let Filling {
                target,
                tree,
                times,
                source,
                ..
            } = *filling;
            let emit = Emit::new(tree, to, by, times, Sys(&HOST), source);
            emit.within(limits::of(target)).all();
        };
        packed = pack(emit, &mut out, by.observer);
    };
    let output = by
        .means
        .ask_fed(SQUASHFS, &mut command, owner, &mut pack_into);
    let output = output.map_err(|e| match owner {
        Some(_) => fail(&format!(
            "before version 4.6 it gives the root directory to its caller, \
             and there may be no user namespace for another one: {e}"
        )),
        None => e,
    })?;
    if by.means.interrupted() {
        return Err(Error::Interrupted);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let text = format!("failed ({}): {}", output.status, said.trim());
        return Err(fail(&text));
    }
    packed.map_err(|e| fail(&e))?;
    // What was to be lost is known and told; it may have found more. The root is an
    // empty name to it.
    let more = said.lines().filter(|line| !line.trim().is_empty());
    for line in more.filter(|line| !line.starts_with("Empty tar filename")) {
        by.observer.told(SQUASHFS.program, line);
    }
    Ok(())
}

/// Before version 4.6 it makes whoever calls it the owner of the root directory.
fn ignores_root_uid(means: &dyn Means) -> Result<bool> {
    let output = run(means, SQUASHFS, means.command(SQUASHFS)?.arg("-version"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.split_whitespace().nth(2).unwrap_or_default();
    let mut parts = version
        .split(['.', '-'])
        .map(|part| part.parse().unwrap_or(0));
    let version: (u32, u32) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    Ok(version < (4, 6))
}

/// Replaces the file by an erofs of what is in an ext4 image, but for lost+found
/// unless that `has_one`.
pub fn erofs(
    to: &Path,
    ext4: &Path,
    has_one: bool,
    (uuid, latest, compression): (&str, Time, Option<&str>),
    means: &dyn Means,
) -> Result<()> {
    // No file is later. -T would give all of them that time, and this gives it to those
    // that are not earlier, without nanoseconds.
    let epoch = latest.sec.max(0) + i64::from(latest.nsec > 0);
    let mut command = means.command(EROFS)?;
    command
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        .arg("--quiet")
        .arg(format!("-U{uuid}"))
        .arg("--preserve-mtime");
    if !has_one {
        command.arg("--exclude-path=lost+found");
    }
    if let Some(name) = compression.filter(|name| *name != "none") {
        command.arg(format!("-z{name}"));
    }
    let output = means.ask_shown(EROFS, command.arg(to), ext4)?;
    success(means, EROFS, output).map(drop)
}

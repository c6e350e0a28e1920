//! squashfs and erofs, which Linux reads but does not write: the distribution's
//! own programs make them.
//!
//! mksquashfs takes an archive. mkfs.erofs takes a directory, which cannot have
//! the right owners unless one is root: so Linux makes an ext4 of the tree, and
//! FUSE shows it.

use super::emit::Emit;
use super::fill::Filling;
use super::limits;
use super::namespace::run_as;
use super::tree::ROOT;
use crate::copy::tar::pack;
use crate::copy::Report;
use crate::failure::{Failure, Result, SOME_FAILED};
use crate::interrupt;
use crate::session::HOST;
use crate::sys::{Sys, Time};
use crate::tools::Tool;
use std::io::{BufWriter, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
    report: &Report,
) -> Result<()> {
    let root = filling.tree.node(ROOT);
    let mut stat = root.stat;
    filling.times.of(&mut stat);
    let mut command = SQUASHFS.command()?;
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
    let is_disguised = ours != (stat.uid, stat.gid) && ignores_root_uid()?;
    if is_disguised {
        run_as(&mut command, stat.uid, stat.gid);
    }
    let spawned = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let fail =
        |e: &dyn std::fmt::Display| Failure::new(SOME_FAILED, format!("{}: {e}", SQUASHFS.program));
    let mut child = spawned.map_err(|e| match is_disguised {
        true => fail(&format!(
            "before version 4.6 it gives the root directory to its caller, \
             and there is no user namespace for another one: {e}"
        )),
        false => fail(&e),
    })?;
    let (input, errors) = (child.stdin.take(), child.stderr.take());
    let said = std::thread::spawn(move || {
        let mut said = String::new();
        let _ = errors.map(|mut errors| errors.read_to_string(&mut said));
        said
    });
    let packed = input.map_or(Ok(()), |input| {
        let mut out = BufWriter::with_capacity(1 << 18, input);
        let emit = |to| {
            let Filling {
                target,
                tree,
                times,
                source,
                ..
            } = *filling;
            let emit = Emit::new(tree, to, report, times, Sys(&HOST), source);
            emit.within(limits::of(target)).all();
        };
        pack(emit, &mut out, report)
    });
    let status = child.wait().map_err(|e| fail(&e))?;
    let said = said.join().unwrap_or_default();
    if interrupt::requested() {
        return Err(Failure::interrupted());
    }
    if !status.success() {
        return Err(fail(&format!("failed ({status}): {}", said.trim())));
    }
    packed.map_err(|e| fail(&e))?;
    // What was to be lost is known and told; it may have found more. The root is an
    // empty name to it.
    let more = said.lines().filter(|line| !line.trim().is_empty());
    for line in more.filter(|line| !line.starts_with("Empty tar filename")) {
        report.lose_as_told(SQUASHFS.program, line);
    }
    Ok(())
}

/// Before version 4.6 it makes whoever calls it the owner of the root directory.
fn ignores_root_uid() -> Result<bool> {
    let output = SQUASHFS.run(SQUASHFS.command()?.arg("-version"), &[0])?;
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
) -> Result<()> {
    // No file is later. -T would give all of them that time, and this gives it to those
    // that are not earlier, without nanoseconds.
    let epoch = latest.sec.max(0) + i64::from(latest.nsec > 0);
    let mut command = EROFS.command()?;
    let shown = Shown::new(ext4)?;
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
    EROFS.run(command.arg(to).arg(&shown.0), &[0])?;
    shown.end()
}

/// An image that this same program shows in a directory.
struct Shown(PathBuf);

impl Shown {
    fn new(image: &Path) -> Result<Shown> {
        let dir = image.with_extension("dir");
        let fail = |e| Failure::new(SOME_FAILED, format!("{}: {e}", dir.display()));
        std::fs::create_dir(&dir).map_err(fail)?;
        let shown = Shown(dir);
        let mut command = tane()?;
        command.args(["mount", "--quiet", "--background"]);
        run(command.arg(image).arg(&shown.0))?;
        Ok(shown)
    }

    fn end(self) -> Result<()> {
        run(tane()?.arg("umount").arg(&self.0))
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if std::fs::remove_dir(&self.0).is_ok() {
            return;
        }
        // Something went wrong before.
        if let Ok(mut command) = tane() {
            let command = command.arg("umount").arg(&self.0);
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn tane() -> Result<Command> {
    let path = std::env::current_exe();
    let path = path.map_err(|e| Failure::new(SOME_FAILED, format!("/proc/self/exe: {e}")))?;
    Ok(Command::new(path))
}

fn run(command: &mut Command) -> Result<()> {
    let fail = |e: &dyn std::fmt::Display| {
        let text = format!("erofs needs a mount by FUSE, and there is none: {e}");
        Failure::new(SOME_FAILED, text)
    };
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| fail(&e))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(fail(&String::from_utf8_lossy(&output.stderr).trim())),
    }
}

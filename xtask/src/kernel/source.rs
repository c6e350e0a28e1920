// SPDX-License-Identifier: GPL-2.0-only
//! The Linux source: found, identified, and unpacked once.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;
use crate::layout::{self, Layout};
use crate::Result;

/// What Debian's package linux-source-6.12 installs.
const DEBIAN: &str = "/usr/src/linux-source-6.12.tar.xz";

/// An unpacked tree of our own, below the build directory.
pub struct Source {
    pub tree: PathBuf,
    /// As in "6.12.117".
    pub version: String,
    /// SHA-256 of the archive, or the state of the tree it was copied from.
    pub id: String,
}

/// Find the source and unpack it, unless that was done before.
pub fn prepare(layout: &Layout) -> Result<Source> {
    let origin =
        std::env::var_os("TANE_LINUX_SOURCE").map_or_else(|| PathBuf::from(DEBIAN), PathBuf::from);
    let state = state(&origin)?;
    let stamp = layout.build().join("source.stamp");
    if let Some(source) = remembered(layout, &stamp, &state) {
        return Ok(source);
    }
    clear_leftovers(layout)?;
    let id = if origin.is_dir() {
        format!("tree {state}")
    } else {
        eprintln!("linux: reading {}", origin.display());
        let sum = command::output(Command::new("sha256sum").arg("--").arg(&origin))?;
        sum.split_whitespace()
            .next()
            .unwrap_or_default()
            .to_string()
    };
    let source = unpack(layout, &origin, id)?;
    let text = format!("{state}\n{}\n{}\n", source.version, source.id);
    layout::write(&stamp, &text)?;
    Ok(source)
}

/// Changes whenever the archive, or the tree's version, does.
fn state(origin: &Path) -> Result<String> {
    let file = if origin.is_dir() {
        origin.join("Makefile")
    } else {
        origin.to_path_buf()
    };
    let found = std::fs::metadata(&file).map_err(|e| {
        format!(
            "{}: {e}\n\
             The kernel is built from Debian's source package: run `make deps`, which\n\
             does `apt-get install linux-source-6.12` among others, or set\n\
             TANE_LINUX_SOURCE to a Linux 6.12 archive or tree.",
            file.display()
        )
    })?;
    let name = origin.display();
    Ok(format!(
        "{name} {} {}.{}",
        found.size(),
        found.mtime(),
        found.mtime_nsec()
    ))
}

fn remembered(layout: &Layout, stamp: &Path, state: &str) -> Option<Source> {
    let text = std::fs::read_to_string(stamp).ok()?;
    let mut lines = text.lines();
    if lines.next()? != state {
        return None;
    }
    let (version, id) = (lines.next()?.to_string(), lines.next()?.to_string());
    let tree = tree(layout, &version, &id);
    tree.join("Makefile")
        .is_file()
        .then_some(Source { tree, version, id })
}

fn tree(layout: &Layout, version: &str, id: &str) -> PathBuf {
    let mut print = crate::hash::Fingerprint::new();
    print.field(id);
    let hash = &print.text()[..8];
    layout.build().join(format!("linux-{version}-{hash}"))
}

/// Trees that an interrupted run was unpacking.
fn clear_leftovers(layout: &Layout) -> Result<()> {
    let fresh = layout.build().join("unpacking");
    match std::fs::remove_dir_all(&fresh) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {e}", fresh.display()))
        }
        _ => Ok(()),
    }
}

fn unpack(layout: &Layout, origin: &Path, id: String) -> Result<Source> {
    let fresh = layout.build().join("unpacking");
    layout::create_dir(&fresh)?;
    let mut command = if origin.is_dir() {
        if origin.join(".config").exists() || origin.join("include/config").exists() {
            return Err(format!(
                "{}: something was built in this tree; `make mrproper` there first",
                origin.display()
            ));
        }
        let mut copy = Command::new("cp");
        copy.args(["-a", "--reflink=auto", "--no-target-directory", "--"]);
        copy.arg(origin).arg(&fresh);
        copy
    } else {
        let mut tar = Command::new("tar");
        tar.args(["-x", "--strip-components=1", "--no-same-owner", "-C"]);
        tar.arg(&fresh).arg("-f").arg(origin);
        tar
    };
    let log = layout.logs().join("source.log");
    command::logged(&mut command, &log, "linux: unpacking")?;
    let version = version(&fresh)?;
    let tree = tree(layout, &version, &id);
    let _ = std::fs::remove_dir_all(&tree);
    std::fs::rename(&fresh, &tree).map_err(|e| format!("{}: {e}", tree.display()))?;
    Ok(Source { tree, version, id })
}

/// The version that the tree's Makefile declares.
fn version(tree: &Path) -> Result<String> {
    let makefile = layout::read(&tree.join("Makefile"))?;
    let field = |name: &str| {
        makefile
            .lines()
            .take(10)
            .filter_map(|line| line.split_once('='))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_string())
            .ok_or_else(|| format!("{}: not a Linux source tree", tree.display()))
    };
    Ok(format!(
        "{}.{}.{}{}",
        field("VERSION")?,
        field("PATCHLEVEL")?,
        field("SUBLEVEL")?,
        field("EXTRAVERSION")?
    ))
}

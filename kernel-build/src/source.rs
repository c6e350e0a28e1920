// SPDX-License-Identifier: GPL-2.0-only
//! The Linux source: found, identified, and unpacked once.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::layout::{self, Layout};
use crate::origin::{self, origin, state};
use crate::{command, Listener, Result};

/// The Linux that the port is for.
const SERIES: &str = "6.12.";
/// What the identity of a tree, rather than of an archive, begins with.
const TREE: &str = "tree ";

/// An unpacked tree of our own, below the build directory.
pub struct Source {
    /// Where.
    pub tree: PathBuf,
    /// As in "6.12.117".
    pub version: String,
    /// SHA-256 of the archive, or the tree it was copied from and its state.
    pub id: String,
}

/// Find the source and unpack it, unless that was done before.
pub fn prepare(layout: &Layout, listener: &dyn Listener) -> Result<Source> {
    let origin = origin(layout);
    let state = state(&origin)?;
    let stamp = layout.build().join("source.stamp");
    if let Some(source) = remembered(layout, &stamp, &state) {
        return Ok(source);
    }
    clear_leftovers(layout)?;
    let id = if origin.is_dir() {
        format!("{TREE}{state}")
    } else {
        listener.note(&format!("linux: reading {}", origin.display()));
        let sum = command::output(Command::new("sha256sum").arg("--").arg(&origin))?;
        crate::image::sha256(&sum).to_string()
    };
    let source = unpack(layout, &origin, id, listener)?;
    let text = format!("{state}\n{}\n{}\n", source.version, source.id);
    layout::write(&stamp, &text)?;
    Ok(source)
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
    let mut print = crate::Fingerprint::new();
    // What is edited stays the same tree, of which only that is compiled again.
    let of = match id.starts_with(TREE) {
        true => id.rsplit_once(' ').map_or(id, |(of, _)| of),
        false => id,
    };
    print.field(of);
    let hash = &print.text()[..8];
    layout.build().join(format!("linux-{version}-{hash}"))
}

fn unpacking(layout: &Layout) -> PathBuf {
    layout.build().join("unpacking")
}

/// What was there before.
fn replaced(layout: &Layout) -> PathBuf {
    layout.build().join("replaced")
}

/// Trees that an interrupted run was unpacking or removing.
fn clear_leftovers(layout: &Layout) -> Result<()> {
    for old in [unpacking(layout), replaced(layout)] {
        match std::fs::remove_dir_all(&old) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {e}", old.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn unpack(layout: &Layout, origin: &Path, id: String, listener: &dyn Listener) -> Result<Source> {
    let fresh = unpacking(layout);
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
        tar.env_remove("TAR_OPTIONS");
        tar.args(["-x", "--strip-components=1", "--no-same-owner"]);
        // With a colon in its name it is not another machine's.
        tar.args(["--force-local", "-C"]);
        tar.arg(&fresh).arg("-f").arg(origin);
        tar
    };
    let log = layout.logs().join("source.log");
    command::logged(&mut command, &log, "linux: unpacking", listener)?;
    let version = version(&fresh)?;
    if !version.starts_with(SERIES) {
        return Err(format!(
            "{}: Linux {version}, and the port is for {SERIES}x",
            origin.display()
        ));
    }
    let tree = tree(layout, &version, &id);
    if tree.is_dir() {
        if origin.is_dir() {
            origin::renew(&fresh, &tree)?;
        }
        let moved = std::fs::rename(&tree, replaced(layout));
        moved.map_err(|e| format!("{}: {e}", tree.display()))?;
    }
    std::fs::rename(&fresh, &tree).map_err(|e| format!("{}: {e}", tree.display()))?;
    clear_leftovers(layout)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Step;
    use std::fs;
    use std::time::{Duration, SystemTime};

    struct Silent;

    impl Listener for Silent {
        fn note(&self, _: &str) {}
        fn progress(&self, _: &Step) {}
        fn interval(&self) -> Duration {
            Duration::MAX
        }
        fn is_stopped(&self) -> bool {
            false
        }
    }

    /// A tree of two files that says it is a Linux, and where it is copied to.
    fn linux(name: &str) -> (PathBuf, Layout) {
        let dir = std::env::temp_dir().join(format!("tane-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let tree = dir.join("linux");
        fs::create_dir_all(tree.join("lib")).unwrap();
        let makefile = "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\n";
        fs::write(tree.join("Makefile"), makefile).unwrap();
        fs::write(tree.join("lib/a.c"), "a").unwrap();
        fs::write(tree.join("lib/b.c"), "b").unwrap();
        let layout = Layout::new(&dir, dir.join("build")).with_origin(Some(tree));
        fs::create_dir_all(layout.logs()).unwrap();
        (dir, layout)
    }

    #[test]
    fn an_edit_of_any_file_of_a_tree_is_taken_and_nothing_else_is_newer() {
        let (dir, layout) = linux("edited");
        let first = prepare(&layout, &Silent).unwrap();
        let again = prepare(&layout, &Silent).unwrap();
        assert_eq!((&first.id, &first.tree), (&again.id, &again.tree));
        let time = |name: &str| {
            let found = fs::metadata(first.tree.join(name)).unwrap();
            found.modified().unwrap()
        };
        let before = ["lib/a.c", "lib/b.c"].map(time);

        // As `cp -p` of an older file, which is not newer.
        let edited = fs::File::create(dir.join("linux/lib/b.c")).unwrap();
        fs::write(dir.join("linux/lib/b.c"), "c").unwrap();
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        edited.set_modified(old).unwrap();
        let second = prepare(&layout, &Silent).unwrap();
        assert_eq!(second.tree, first.tree);
        assert_ne!(second.id, first.id);
        assert_eq!(fs::read(second.tree.join("lib/b.c")).unwrap(), b"c");
        let after = ["lib/a.c", "lib/b.c"].map(time);
        assert_eq!(after[0], before[0]);
        assert!(after[1] > before[1]);

        // What is removed is an edit, too.
        fs::remove_file(dir.join("linux/lib/a.c")).unwrap();
        let third = prepare(&layout, &Silent).unwrap();
        assert!(!third.tree.join("lib/a.c").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_git_keeps_for_itself_is_no_edit() {
        let (dir, layout) = linux("in-git");
        fs::create_dir_all(dir.join("linux/.git")).unwrap();
        let first = prepare(&layout, &Silent).unwrap();
        fs::write(dir.join("linux/.git/index"), "looked at").unwrap();
        assert_eq!(prepare(&layout, &Silent).unwrap().id, first.id);
        fs::remove_dir_all(&dir).unwrap();
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! What somebody names as Linux's source, an archive or a tree, and whether it is as it was.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::hash::Fingerprint;
use crate::{layout, Layout, Result};

/// What Debian's package linux-source-6.12 installs.
pub const DEBIAN: &str = "/usr/src/linux-source-6.12.tar.xz";

/// What is built from unless somebody says otherwise.
pub fn origin(layout: &Layout) -> PathBuf {
    let named = std::env::var_os("TANE_LINUX_SOURCE").map(PathBuf::from);
    let named = layout.origin().map(Path::to_path_buf).or(named);
    named.unwrap_or_else(|| PathBuf::from(DEBIAN))
}

/// Changes whenever the archive, or any file of the tree, does.
pub fn state(origin: &Path) -> Result<String> {
    let found = fs::metadata(origin).and_then(|found| match found.is_dir() {
        true => fs::metadata(origin.join("Makefile")).map(|_| found),
        false => Ok(found),
    });
    let found = found.map_err(|e| {
        format!(
            "{}: {e}\n\
             A kernel is built from Debian's source package, which\n\
             `apt-get install linux-source-6.12` installs, or from the archive or clean\n\
             tree of a Linux 6.12 that TANE_LINUX_SOURCE names.",
            origin.display()
        )
    })?;
    let name = origin.display();
    if found.is_dir() {
        let mut print = Fingerprint::new();
        print_tree(&mut print, origin, true)?;
        return Ok(format!("{name} {}", print.text()));
    }
    Ok(format!(
        "{name} {} {}.{}",
        found.size(),
        found.mtime(),
        found.mtime_nsec()
    ))
}

/// By names, sizes and times: what a file has cannot change without its ctime. What git
/// keeps for itself is no part of the source.
fn print_tree(print: &mut Fingerprint, dir: &Path, is_root: bool) -> Result<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", dir.display());
    let entries = fs::read_dir(dir).map_err(failed)?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort();
    for name in names {
        if is_root && name == ".git" {
            continue;
        }
        let path = dir.join(&name);
        let found = fs::symlink_metadata(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        print.field(name.as_encoded_bytes());
        if found.is_dir() {
            print_tree(print, &path, false)?;
            print.field("..");
            continue;
        }
        let of = [
            i64::from(found.mode()),
            found.len() as i64,
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec(),
        ];
        print.field(of.map(i64::to_le_bytes).concat());
    }
    Ok(())
}

/// Make compiles what is newer than what it was made into. So what differs in a new copy from
/// an older one, and is no newer, becomes so.
pub fn renew(fresh: &Path, old: &Path) -> Result<()> {
    for path in layout::files_below(fresh)? {
        let name = path.strip_prefix(fresh).unwrap_or(&path);
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        // The date that the image tells is this one's.
        if name == Path::new("Makefile") || name.starts_with(".git") {
            continue;
        }
        let before = old.join(name);
        if !is_same(&path, &before).map_err(failed)? {
            let file = fs::File::open(&path);
            file.and_then(|file| file.set_modified(SystemTime::now()))
                .map_err(failed)?;
        }
    }
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> std::io::Result<bool> {
    let Ok(theirs) = fs::metadata(other) else {
        return Ok(false);
    };
    let mine = fs::metadata(one)?;
    if mine.len() != theirs.len() {
        return Ok(false);
    }
    Ok(fs::read(one)? == fs::read(other)?)
}

// SPDX-License-Identifier: GPL-2.0-only
//! Puts what is ours into the unpacked tree: a link to arch/tane, and the
//! patches. Changed patches are applied to restored originals, so that only
//! the files they touch are compiled again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fresh::Fresh;
use crate::hash::Fingerprint;
use crate::layout::{self, Layout};
use crate::{command, Result};

use crate::Source;

pub fn apply(layout: &Layout, source: &Source) -> Result<()> {
    link(&layout.overlay(), &source.tree.join("arch/tane"))?;
    let patches = patches(layout)?;
    let mut print = Fingerprint::new();
    for patch in &patches {
        print.field(layout::read(patch)?);
    }
    let book = Book {
        tree: &source.tree,
        dir: source.tree.join(".tane"),
    };
    if book.applied() == print.text() {
        return Ok(());
    }
    book.restore()?;
    for patch in &patches {
        book.save(&targets(&layout::read(patch)?))?;
        put(patch, &source.tree, &source.version)?;
    }
    layout::write(&book.dir.join("series"), &print.text())
}

fn put(patch: &Path, tree: &Path, version: &str) -> Result<()> {
    command::output(
        Command::new("patch")
            .args(["-p1", "--forward", "--fuzz=0", "--no-backup-if-mismatch"])
            .args(["--reject-file=-", "--quiet", "-i"])
            .arg(patch)
            .current_dir(tree),
    )
    .map(drop)
    .map_err(|e| format!("{} does not apply to Linux {version}: {e}", patch.display()))
}

/// Apply a layout's patches to copies of the files of `source` that they change.
pub fn try_patches(layout: &Layout, source: &Source) -> Result<()> {
    let patches = patches(layout)?;
    let copies = layout.build().join("tried");
    let _ = fs::remove_dir_all(&copies);
    layout::create_dir(&copies)?;
    for patch in &patches {
        for file in targets(&layout::read(patch)?) {
            let (from, to) = (source.tree.join(&file), copies.join(&file));
            if from.exists() && !to.exists() {
                layout::create_dir(to.parent().unwrap_or(&copies))?;
                fs::copy(&from, &to).map_err(|e| format!("{}: {e}", from.display()))?;
            }
        }
        put(patch, &copies, &source.version)?;
    }
    fs::remove_dir_all(&copies).map_err(|e| format!("{}: {e}", copies.display()))
}

/// The series, in the order of the file names.
pub fn patches(layout: &Layout) -> Result<Vec<PathBuf>> {
    let mut found = layout::files_below(&layout.patches())?;
    found.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "patch")
    });
    Ok(found)
}

fn link(target: &Path, link: &Path) -> Result<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", link.display());
    if fs::read_link(link).is_ok_and(|old| old == target) {
        return Ok(());
    }
    if fs::symlink_metadata(link).is_ok() {
        fs::remove_file(link).map_err(failed)?;
    }
    std::os::unix::fs::symlink(target, link).map_err(failed)
}

/// The files that a patch changes, creates or deletes.
fn targets(patch: &str) -> BTreeSet<PathBuf> {
    patch
        .lines()
        .filter_map(|line| line.strip_prefix("--- a/").or(line.strip_prefix("+++ b/")))
        .map(|name| PathBuf::from(name.split('\t').next().unwrap_or(name).trim_end()))
        .collect()
}

/// What was done to a tree, kept inside it: `series` names the patches that
/// are applied, `touched` the files, `orig/` holds these as they were.
struct Book<'a> {
    tree: &'a Path,
    dir: PathBuf,
}

impl Book<'_> {
    fn applied(&self) -> String {
        fs::read_to_string(self.dir.join("series")).unwrap_or_default()
    }

    fn touched(&self) -> BTreeSet<PathBuf> {
        let text = fs::read_to_string(self.dir.join("touched")).unwrap_or_default();
        text.lines().map(PathBuf::from).collect()
    }

    /// Remember files before their first change. The copy comes first: an
    /// interrupted run can be restored.
    fn save(&self, files: &BTreeSet<PathBuf>) -> Result<()> {
        let mut touched = self.touched();
        for file in files.difference(&touched.clone()) {
            let (from, to) = (self.tree.join(file), self.dir.join("orig").join(file));
            layout::create_dir(to.parent().unwrap_or(&self.dir))?;
            if from.exists() {
                fs::copy(&from, &to).map_err(|e| format!("{}: {e}", from.display()))?;
            }
            touched.insert(file.clone());
        }
        let lines: Vec<_> = touched.iter().map(|path| path.to_string_lossy()).collect();
        layout::write(&self.dir.join("touched"), &(lines.join("\n") + "\n"))
    }

    /// Bring the tree back to the state in which it was unpacked.
    fn restore(&self) -> Result<()> {
        for file in self.touched() {
            let (from, to) = (self.dir.join("orig").join(&file), self.tree.join(&file));
            if from.exists() {
                // Never in place: another tree may have the same file by a link.
                Fresh::of(&to)?.copy_of(&from)?.put()?;
            } else if to.exists() {
                fs::remove_file(&to).map_err(|e| format!("{}: {e}", to.display()))?;
            }
        }
        let _ = fs::remove_dir_all(&self.dir);
        layout::create_dir(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_restored_in_a_tree_stays_in_another_one_that_has_it_by_a_link() {
        let dir = std::env::temp_dir().join(format!("tane-restored-{}", std::process::id()));
        let tree = dir.join("tree");
        fs::create_dir_all(&tree).unwrap();
        let book = Book {
            tree: &tree,
            dir: tree.join(".tane"),
        };
        let file = PathBuf::from("x.c");
        fs::write(tree.join(&file), "as it was").unwrap();
        book.save(&BTreeSet::from([file.clone()])).unwrap();
        fs::remove_file(tree.join(&file)).unwrap();
        fs::write(dir.join("theirs"), "patched").unwrap();
        fs::hard_link(dir.join("theirs"), tree.join(&file)).unwrap();
        book.restore().unwrap();
        assert_eq!(fs::read(tree.join(&file)).unwrap(), b"as it was");
        assert_eq!(fs::read(dir.join("theirs")).unwrap(), b"patched");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn targets_are_both_sides() {
        let patch = "--- a/lib/x.c\t2026\n+++ b/lib/x.c\n@@ -1 +1 @@\n\
                     --- /dev/null\n+++ b/lib/new.c\n";
        let expected = [PathBuf::from("lib/new.c"), PathBuf::from("lib/x.c")];
        assert_eq!(targets(patch), BTreeSet::from(expected));
    }
}

// SPDX-License-Identifier: GPL-2.0-only
//! `xtask layers`: each crate's first page has a line that says which others of ours
//! it imports, and cargo's dependency graph must be just that. So a new arrow between
//! two crates is a line that somebody wrote, and read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::layout::{files_below, read, Layout};
use crate::Result;

const LINE: &str = "//! Imports of ours:";

/// Folders inside a crate, and what nothing in them may name.
const FOLDERS: [(&str, &[&str]); 2] = [
    // A disk is a device like others: what all have in common knows none of them.
    ("devices/src/virtio", &["blk", "Block", "tane_images"]),
    // What a queue holds is between driver and device.
    ("host/src", &["virtqueue", "VirtioQueue", "tane_devices"]),
];
/// Mirrors the contract with the kernel, where both meet.
const CONTRACT: &str = "host/src/abi.rs";

pub fn main(layout: &Layout) -> Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let graph = tane_kernel_build::command::output(
        Command::new(cargo)
            .args(["tree", "--workspace", "--all-features", "--target", "all"])
            .args(["--edges", "normal,build", "--depth", "1", "--no-dedupe"])
            .args(["--prefix", "depth", "--format", "{p}"])
            .current_dir(&layout.root),
    )?;
    let crates = parse(&graph, &layout.root)?;
    let mut wrong = Vec::new();
    for (name, member) in &crates {
        let page = first_page(&member.folder)?;
        let expected = line(&member.imports);
        let said = statement(&read(&page)?);
        if said.as_deref() != Some(&expected) {
            wrong.push(format!(
                "  {}: {name} says {}, cargo says: {expected}",
                shown(&page, layout),
                said.map_or("nothing".into(), |said| format!("{said:?}")),
            ));
        }
    }
    for (folder, words) in FOLDERS {
        for file in files_below(&layout.root.join(folder))? {
            if file.ends_with(CONTRACT) {
                continue;
            }
            let text = read(&file)?;
            wrong.extend(named(&text, words).map(|(number, word)| {
                format!("  {}:{number}: names {word}", shown(&file, layout))
            }));
        }
    }
    if wrong.is_empty() {
        println!("layers: {} crates import what they say", crates.len());
        return Ok(());
    }
    Err(format!(
        "layers that do not hold; mend the import, or the line if it is meant:\n{}",
        wrong.join("\n")
    ))
}

#[derive(Debug, PartialEq)]
struct Member {
    folder: PathBuf,
    /// By name, sorted.
    imports: Vec<String>,
}

/// What cargo tree says: crates at depth 0, what they import at depth 1.
fn parse(graph: &str, root: &Path) -> Result<BTreeMap<String, Member>> {
    let mut crates = BTreeMap::<String, Member>::new();
    let mut last = None;
    for line in graph.lines().filter(|line| !line.is_empty()) {
        let strange = || format!("cargo tree: cannot read {line:?}");
        let (depth, package) = line.split_at_checked(1).ok_or_else(strange)?;
        let (name, rest) = package.split_once(' ').ok_or_else(strange)?;
        let folder = rest
            .split_once('(')
            .and_then(|(_, rest)| rest.split_once(')'))
            .map(|(folder, _)| Path::new(folder))
            .filter(|folder| folder.starts_with(root));
        match (depth, folder, &last) {
            ("0", Some(folder), _) => {
                last = Some(name.to_owned());
                let (folder, imports) = (folder.to_path_buf(), Vec::new());
                crates.insert(name.into(), Member { folder, imports });
            }
            ("1", Some(_), Some(importer)) => {
                let member = crates.get_mut(importer).ok_or_else(strange)?;
                member.imports.push(name.to_owned());
                member.imports.sort();
                member.imports.dedup();
            }
            ("1", None, _) => {}
            _ => return Err(strange()),
        }
    }
    Ok(crates)
}

/// The file that a reader opens first.
fn first_page(folder: &Path) -> Result<PathBuf> {
    ["src/lib.rs", "src/main.rs"]
        .map(|name| folder.join(name))
        .into_iter()
        .find(|page| page.is_file())
        .ok_or_else(|| format!("{}: no src/lib.rs and no src/main.rs", folder.display()))
}

fn line(imports: &[String]) -> String {
    if imports.is_empty() {
        return "none.".into();
    }
    let names: Vec<_> = imports.iter().map(|name| format!("`{name}`")).collect();
    format!("{}.", names.join(", "))
}

/// What follows [`LINE`] up to a full stop, perhaps in several lines.
fn statement(page: &str) -> Option<String> {
    let lines = page.lines().skip_while(|line| !line.starts_with(LINE));
    let mut said = String::new();
    for line in lines.take_while(|line| line.starts_with("//!")) {
        let rest = line.strip_prefix(LINE).unwrap_or(&line["//!".len()..]);
        said = format!("{said} {}", rest.trim()).trim().to_owned();
        if said.ends_with('.') {
            return Some(said);
        }
    }
    None
}

/// The lines, from 1, that have one of the words as a word.
fn named<'a>(text: &'a str, words: &'a [&str]) -> impl Iterator<Item = (usize, &'a str)> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let mut all = line.split(|letter| !is_part(letter));
        let found = all.find(|word| words.contains(word))?;
        Some((number, found))
    })
}

fn shown(file: &Path, layout: &Layout) -> String {
    let file = file.strip_prefix(&layout.root).unwrap_or(file);
    file.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAPH: &str = "\
0tane-b v0.1.0 (/root/b)
1libc v0.2.1
1tane-a v0.1.0 (/root/a)
1tane-0 v0.1.0 (/root/0)

0tane-a v0.1.0 (/root/a)
1other v1.0.0 (/elsewhere/other)
";

    #[test]
    fn what_a_crate_of_ours_imports_of_ours_is_read_from_cargos_graph() {
        let crates = parse(GRAPH, Path::new("/root")).unwrap();
        assert_eq!(crates["tane-b"].imports, ["tane-0", "tane-a"]);
        assert_eq!(crates["tane-b"].folder, Path::new("/root/b"));
        assert!(crates["tane-a"].imports.is_empty());
        assert!(parse("2tane-c v1 (/root/c)\n", Path::new("/root")).is_err());
    }

    #[test]
    fn a_first_page_says_it_in_one_line_or_in_several() {
        let said = |page| statement(page);
        assert_eq!(
            said("//! A.\n//! Imports of ours: none.\n"),
            Some("none.".into())
        );
        let two = "//! Imports of ours: `tane-a`,\n//! `tane-b`.\n//! More.\n";
        assert_eq!(said(two), Some(line(&["tane-a".into(), "tane-b".into()])));
        assert_eq!(said("//! Imports of ours: `tane-a`\n\nuse a;"), None);
        assert_eq!(said("//! Nothing.\n"), None);
    }

    #[test]
    fn a_folder_that_names_what_it_may_not_know_is_told_with_the_line() {
        let text = "use crate::blk;\nlet blkid = 1;\n// a Block device\n";
        let found: Vec<_> = named(text, &["blk", "Block"]).collect();
        assert_eq!(found, [(1, "blk"), (3, "Block")]);
    }
}

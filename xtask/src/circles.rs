// SPDX-License-Identifier: GPL-2.0-only
//! `xtask circles`: folders of a crate are read one after another if no file of one needs a
//! file of another that needs it again, by whatever way. A module and what is within it
//! count as one: there it is meant.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use crate::layout::{files_below, read, Layout};
use crate::Result;

/// A module's path within its crate.
type Module = Vec<String>;

#[derive(Default)]
struct File {
    folder: PathBuf,
    needs: BTreeSet<Module>,
}

pub fn main(layout: &Layout) -> Result<()> {
    let mut wrong = Vec::new();
    let members = members(&read(&layout.root.join("Cargo.toml"))?);
    if members.is_empty() {
        return Err("Cargo.toml: no members".into());
    }
    for member in &members {
        let circle = circle(&files(&layout.root.join(member).join("src"))?);
        if let Some(circle) = circle {
            wrong.push(format!("  {member}: {}", circle.join(" > ")));
        }
    }
    if wrong.is_empty() {
        let all = members.len();
        println!("circles: none between folders in {all} crates");
        return Ok(());
    }
    let text = "folders of a crate that need each other; move what both need into a file below";
    Err(format!("{text}:\n{}", wrong.join("\n")))
}

/// The folders in the list of Cargo.toml.
fn members(manifest: &str) -> Vec<String> {
    let list = manifest.split_once("members = [").map(|(_, rest)| rest);
    let list = list.and_then(|rest| rest.split_once(']'));
    let words = list.map_or("", |(list, _)| list).split('"');
    words.skip(1).step_by(2).map(str::to_owned).collect()
}

fn files(src: &Path) -> Result<BTreeMap<Module, File>> {
    let mut texts = BTreeMap::new();
    for path in files_below(src)? {
        let within = path.strip_prefix(src).unwrap_or(&path).with_extension("");
        if path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let mut module: Module = within
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        if ["mod", "lib", "main"].contains(&&module[module.len() - 1][..]) {
            module.pop();
        }
        let folder = path.parent().unwrap_or(src).to_path_buf();
        texts.insert(module, (folder, read(&path)?));
    }
    let mut files = BTreeMap::new();
    for (module, (folder, text)) in &texts {
        let named = paths(text).into_iter();
        let found = named.filter_map(|path| resolved(&path, module, |m| texts.contains_key(m)));
        let is_other = |other: &Module| !other.starts_with(module) && !module.starts_with(other);
        let needs = found.filter(is_other).collect();
        let folder = folder.clone();
        files.insert(module.clone(), File { folder, needs });
    }
    Ok(files)
}

/// The paths that a file names, without its comments and tests.
fn paths(text: &str) -> Vec<Module> {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    let code = code.collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for statement in code.split(';') {
        let begin = statement.rfind('\n').map_or(0, |at| at + 1);
        let begin = statement.find("use ").map_or(begin, |at| at.min(begin));
        let last = &statement[begin..];
        let tree = last.split_once("use ").filter(|(before, _)| {
            let before = before.trim();
            before.is_empty() || before.starts_with("pub")
        });
        if let Some((_, tree)) = tree {
            expand(&[], tree, &mut found);
            continue;
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let words = statement.split(|c| !is_part(c));
        for word in words.filter(|word| word.contains("::")) {
            let path: Module = word.split("::").map(str::to_owned).collect();
            if ["crate", "super", "self"].contains(&&path[0][..]) {
                found.push(path);
            }
        }
    }
    found
}

/// The paths of the tree of a `use`.
fn expand(before: &[String], tree: &str, found: &mut Vec<Module>) {
    let (path, list) = match tree.split_once('{') {
        Some((path, rest)) => (path, rest.rsplit_once('}').map(|(list, _)| list)),
        None => (tree, None),
    };
    let path = path.split(" as ").next().unwrap_or(path);
    let names = path
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let path = [before, &names.map(str::to_owned).collect::<Vec<_>>()].concat();
    let Some(list) = list else {
        found.push(path);
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !list[start..at].trim().is_empty() {
                    expand(&path, &list[start..at], found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The file that has what a path names in a file of this module.
fn resolved(
    path: &[String],
    module: &[String],
    is_there: impl Fn(&Module) -> bool,
) -> Option<Module> {
    let mut base = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &path[1..];
        }
        "super" | "self" => {
            while let Some(("super" | "self", after)) = rest
                .split_first()
                .map(|(first, after)| (first.as_str(), after))
            {
                if rest[0] == "super" {
                    base.pop();
                }
                rest = after;
            }
        }
        first => {
            let child = [&base[..], &[first.to_owned()]].concat();
            is_there(&child).then_some(())?;
        }
    }
    let mut full = [&base[..], rest].concat();
    while !full.is_empty() && !is_there(&full) {
        full.pop();
    }
    Some(full).filter(|full| !full.is_empty())
}

/// A shortest way from a file to one in another folder and back to it.
fn circle(files: &BTreeMap<Module, File>) -> Option<Vec<String>> {
    let names = |way: Vec<&Module>| way.into_iter().map(|m| m.join("/")).collect::<Vec<_>>();
    for (module, file) in files {
        let others = files
            .iter()
            .filter(|(_, other)| other.folder != file.folder);
        for (other, _) in others {
            let there = way(files, module, other);
            if let Some((there, back)) = there.zip(way(files, other, module)) {
                return Some(names([&there[..], &back[1..]].concat()));
            }
        }
    }
    None
}

fn way<'f>(
    files: &'f BTreeMap<Module, File>,
    from: &'f Module,
    to: &Module,
) -> Option<Vec<&'f Module>> {
    let mut before = BTreeMap::from([(from, None)]);
    let mut todo = VecDeque::from([from]);
    while let Some(at) = todo.pop_front() {
        if at == to {
            let steps = std::iter::successors(Some(at), |at| before[at]);
            let mut way: Vec<_> = steps.collect();
            way.reverse();
            return Some(way);
        }
        for next in files.get(at).map(|file| &file.needs)? {
            if !before.contains_key(next) {
                before.insert(next, Some(at));
                todo.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split("::").map(str::to_owned).collect()
    }

    #[test]
    fn what_a_file_names_is_found_in_uses_and_elsewhere() {
        let text = "//! See crate::none.\npub(crate) use crate::a::{b, c::{self, D}};\n\
                    use super::e as f;\nfn g() {\n    crate::h::i(super::J);\n}\n\
                    #[cfg(test)]\nmod tests {\n    use crate::k;\n}\n";
        let expected = [
            "crate::a::b",
            "crate::a::c::self",
            "crate::a::c::D",
            "super::e",
        ];
        let expected = expected.into_iter().chain(["crate::h::i", "super::J"]);
        assert_eq!(paths(text), expected.map(module).collect::<Vec<_>>());
    }

    #[test]
    fn a_path_is_of_the_longest_module_that_there_is() {
        let all = ["a", "a::b", "c"].map(module);
        let of = |path: &str, within: &str| {
            resolved(&module(path), &module(within), |m| all.contains(m))
        };
        assert_eq!(of("crate::a::b::C", "c"), Some(module("a::b")));
        assert_eq!(of("super::super::c::d", "a::b"), Some(module("c")));
        assert_eq!(of("b::E", "a"), Some(module("a::b")));
        assert_eq!(of("std::io", "a"), None);
    }

    #[test]
    fn a_circle_counts_if_it_leaves_its_folder() {
        let files = |list: &[(&str, &str, &str)]| {
            let file = |&(name, folder, needs): &(&str, &str, &str)| {
                let needs = needs.split_whitespace().map(module).collect();
                let folder = folder.into();
                (module(name), File { folder, needs })
            };
            list.iter().map(file).collect::<BTreeMap<_, _>>()
        };
        let beside = files(&[("a", "", "b"), ("b", "", "a"), ("c::d", "c", "a")]);
        assert_eq!(circle(&beside), None);
        let across = files(&[("a", "", "b"), ("b", "", "c::d"), ("c::d", "c", "a")]);
        assert_eq!(circle(&across).unwrap(), ["a", "b", "c/d", "a"]);
    }
}

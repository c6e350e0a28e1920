// SPDX-License-Identifier: GPL-2.0-only
//! `xtask circles`: folders of a crate are read one after another if no file of one needs a
//! file of another that needs it again, by whatever way. A module and what is within it
//! count as one: there it is meant.

mod paths;

use paths::{named, resolved, DEEPEST};
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
        let circle = circle(files(&layout.root.join(member).join("src"))?, 0);
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
    let (mut uses, mut named_in) = (BTreeMap::new(), BTreeMap::new());
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
        let (own, paths) = named(&read(&path)?);
        uses.insert(module.clone(), own);
        named_in.insert(module, (folder, paths));
    }
    let mut files = BTreeMap::new();
    for (module, (folder, paths)) in &named_in {
        let of = |path: &Module| resolved(path, module, module, &uses, DEEPEST);
        // What is handed on of those within is not needed here.
        let used = uses[module].iter().filter_map(|one| {
            let other = of(&one.path)?;
            (!one.is_handed_on || !other.starts_with(module)).then_some(other)
        });
        let needs = used.chain(paths.iter().filter_map(of));
        let needs = needs.filter(|other| other != module).collect();
        let folder = folder.clone();
        files.insert(module.clone(), File { folder, needs });
    }
    Ok(files)
}

/// One is within the other.
fn is_kin(one: &[String], other: &[String]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// A file beside the folder of what is within its module, and what is in that, as one, of
/// modules whose paths are longer than that: who needs the one meets what the other needs.
/// Those of a folder's own file stay apart. And of each such module what is within it.
fn joined(
    files: BTreeMap<Module, File>,
    longer: usize,
) -> (BTreeMap<Module, File>, Vec<BTreeMap<Module, File>>) {
    let is_beside = |module: &[String]| {
        let own = files.get(module).filter(|_| !module.is_empty());
        own.is_some_and(|file| file.folder.file_name() != module.last().map(AsRef::as_ref))
    };
    let unit = |module: &Module| {
        let all = (longer + 1..module.len()).map(|len| &module[..len]);
        let outermost = { all }.find(|within| is_beside(within));
        outermost.unwrap_or(module).to_vec()
    };
    let mut all: BTreeMap<Module, File> = BTreeMap::new();
    for (module, file) in &files {
        let own = unit(module);
        let joined = all.entry(own.clone()).or_default();
        if *module == own {
            joined.folder.clone_from(&file.folder);
        }
        let needs = file.needs.iter().map(unit);
        joined.needs.extend(needs.filter(|other| *other != own));
    }
    let of: Vec<_> = files.keys().map(unit).collect();
    let mut within: BTreeMap<Module, BTreeMap<Module, File>> = BTreeMap::new();
    for ((module, file), own) in files.into_iter().zip(of) {
        if own != module {
            within.entry(own).or_default().insert(module, file);
        }
    }
    (all, within.into_values().collect())
}

/// A circle of files, or of files with what is within their modules; or within one of those.
fn circle(files: BTreeMap<Module, File>, longer: usize) -> Option<Vec<String>> {
    let (all, within) = joined(files, longer);
    circle_of(&all).or_else(|| {
        within.into_iter().find_map(|files| {
            let longer = files.keys().map(Vec::len).min()?;
            circle(files, longer - 1)
        })
    })
}

/// A shortest way from a file to one in another folder and back to it.
fn circle_of(files: &BTreeMap<Module, File>) -> Option<Vec<String>> {
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
        let here = files.get(at)?;
        // What a folder's own file has of its folders it hands on, and what they have of it is
        // meant.
        let is_apart = |next: &&Module| {
            !is_kin(at, next)
                || files
                    .get(*next)
                    .is_some_and(|file| file.folder == here.folder)
        };
        for next in here.needs.iter().filter(is_apart) {
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

    fn files(list: &[(&str, &str, &str)]) -> BTreeMap<Module, File> {
        let file = |&(name, folder, needs): &(&str, &str, &str)| {
            let needs = needs.split_whitespace().map(module).collect();
            let folder = folder.into();
            (module(name), File { folder, needs })
        };
        list.iter().map(file).collect()
    }

    #[test]
    fn a_circle_counts_if_it_leaves_its_folder() {
        let beside = files(&[("a", "", "b"), ("b", "", "a"), ("c::d", "c", "a")]);
        assert_eq!(circle(beside, 0), None);
        let across = files(&[("a", "", "b"), ("b", "", "c::d"), ("c::d", "c", "a")]);
        assert_eq!(circle(across, 0).unwrap(), ["a", "b", "c/d", "a"]);
    }

    /// `s::j` has its own file beside its folder, and `t` has it within.
    #[test]
    fn a_module_and_what_is_within_it_count_as_one() {
        let meant = files(&[
            ("s::g", "s", "s::j"),
            ("s::j", "s", "s::j::p s::g"),
            ("s::j::p", "s/j", "s::j s::g"),
            ("t", "t", "t::u"),
            ("t::u", "t", "t"),
        ]);
        assert_eq!(circle(meant, 0), None);
        // What is within it needs what needs a neighbour.
        let by_what_is_within = files(&[
            ("s::g", "s", "s::j"),
            ("s::j", "s", "s::j::p"),
            ("s::j::p", "s/j", "t::u"),
            ("t::u", "t", "s::g"),
        ]);
        let found = circle(by_what_is_within, 0).unwrap();
        assert_eq!(found, ["s/g", "s/j", "t/u", "s/g"]);
        let within = files(&[
            ("s::j", "s", ""),
            ("s::j::p", "s/j", "s::j::q::r"),
            ("s::j::q::r", "s/j/q", "s::j::p"),
        ]);
        let found = circle(within, 0).unwrap();
        assert_eq!(found, ["s/j/p", "s/j/q/r", "s/j/p"]);
    }
}

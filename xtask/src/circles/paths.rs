// SPDX-License-Identifier: GPL-2.0-only
//! The paths that a file of Rust names, and which file has what they mean.

use super::Module;
use std::collections::BTreeMap;

/// One of the paths of a `use`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub path: Module,
    /// What it is called where it is used.
    pub name: String,
    /// It is handed on as this file's own.
    pub is_handed_on: bool,
}

/// What a file uses, and the other paths that it names, without its comments and tests.
pub fn named(text: &str) -> (Vec<Use>, Vec<Module>) {
    let text = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line));
    let code = code.collect::<Vec<_>>().join("\n");
    let (mut uses, mut paths) = (Vec::new(), Vec::new());
    for statement in code.split(';') {
        // Its list may have several lines; `pub` stands on the first.
        let head = statement
            .find("use ")
            .map_or(statement, |at| &statement[..at]);
        let begin = head.rfind('\n').map_or(0, |at| at + 1);
        let last = &statement[begin..];
        let tree = last.split_once("use ").filter(|(before, _)| {
            let before = before.trim();
            before.is_empty() || before.starts_with("pub")
        });
        if let Some((before, tree)) = tree {
            let is_handed_on = !before.trim().is_empty();
            expand(&[], tree, is_handed_on, &mut uses);
            continue;
        }
        let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let words = statement.split(|c| !is_part(c));
        for word in words.filter(|word| word.contains("::")) {
            let path: Module = word.split("::").map(str::to_owned).collect();
            if !path[0].is_empty() {
                paths.push(path);
            }
        }
    }
    (uses, paths)
}

/// The paths of the tree of a `use`.
fn expand(before: &[String], tree: &str, is_handed_on: bool, found: &mut Vec<Use>) {
    let (path, list) = match tree.split_once('{') {
        Some((path, rest)) => (path, rest.rsplit_once('}').map(|(list, _)| list)),
        None => (tree, None),
    };
    let (path, alias) = match path.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (path, None),
    };
    let names = path
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    let path = [before, &names.map(str::to_owned).collect::<Vec<_>>()].concat();
    let Some(list) = list else {
        let own = path.iter().rfind(|name| *name != "self").cloned();
        found.push(Use {
            name: alias.or(own).unwrap_or_default(),
            path,
            is_handed_on,
        });
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in list.char_indices().chain([(list.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !list[start..at].trim().is_empty() {
                    expand(&path, &list[start..at], is_handed_on, found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// As often as a name is followed to another: one that names itself would be without end.
pub const DEEPEST: u32 = 16;

/// The file that has what a path names in a file of this module: not one that hands it on, or
/// has another name for it. `uses` has all modules; `asks`: for whom, who may be another one.
pub fn resolved(
    path: &[String],
    module: &[String],
    asks: &[String],
    uses: &BTreeMap<Module, Vec<Use>>,
    left: u32,
) -> Option<Module> {
    let left = left.checked_sub(1)?;
    let is_there = |module: &Module| uses.contains_key(module);
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
            if !is_there(&child) {
                let used = uses.get(module)?.iter();
                let used = { used }.find(|one| one.name == first && one.path != path)?;
                let path = [&used.path[..], &path[1..]].concat();
                return resolved(&path, module, asks, uses, left);
            }
        }
    }
    let whole = [&base[..], rest].concat();
    let mut full = whole.clone();
    while !full.is_empty() && !is_there(&full) {
        full.pop();
    }
    let origin = whole.get(full.len()).and_then(|name| {
        // What a module uses for itself, those within it can name as its own.
        let may = |one: &&Use| one.is_handed_on || asks.starts_with(&full);
        let mut used = uses.get(&full)?.iter().filter(may);
        let used = used.find(|one| one.name == *name)?;
        let path = [&used.path[..], &whole[full.len() + 1..]].concat();
        resolved(&path, &full, &full, uses, left)
    });
    origin.or(Some(full).filter(|full| !full.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split("::").map(str::to_owned).collect()
    }

    /// `path`, or `path as name`; with a `pub` before it is handed on.
    fn used(text: &str) -> Use {
        let (is_handed_on, text) = match text.strip_prefix("pub ") {
            Some(text) => (true, text),
            None => (false, text),
        };
        let (path, name) = text.split_once(" as ").unwrap_or((text, ""));
        let path = module(path);
        let own = path.iter().rfind(|part| *part != "self").cloned();
        let name = match name {
            "" => own.unwrap_or_default(),
            name => name.to_owned(),
        };
        Use {
            path,
            name,
            is_handed_on,
        }
    }

    #[test]
    fn what_a_file_names_is_found_in_uses_and_elsewhere() {
        let text = "//! See crate::none.\npub(crate) use crate::a::{\n    b, c::{self, D},\n};\n\
                    use super::e as f;\nfn g() {\n    crate::h::i(super::J, f::k());\n}\n\
                    #[cfg(test)]\nmod tests {\n    use crate::l;\n}\n";
        let (uses, paths) = named(text);
        let expected = [
            "pub crate::a::b",
            "pub crate::a::c::self",
            "pub crate::a::c::D",
            "super::e as f",
        ];
        assert_eq!(uses, expected.map(used));
        assert_eq!(paths, ["crate::h::i", "super::J", "f::k"].map(module));
    }

    #[test]
    fn a_path_is_of_the_longest_module_that_there_is() {
        let all = [
            ("", "pub d::F"),
            ("a", "pub b::G as H"),
            ("a::b", ""),
            ("c", "pub crate::a::H"),
            ("d", "crate::a as e"),
            ("d::f", ""),
        ];
        let all = all.map(|(at, one)| {
            let at = if at.is_empty() {
                Vec::new()
            } else {
                module(at)
            };
            let uses = if one.is_empty() {
                Vec::new()
            } else {
                vec![used(one)]
            };
            (at, uses)
        });
        let all = BTreeMap::from(all);
        let of = |path: &str, within: &str| {
            let within = module(within);
            resolved(&module(path), &within, &within, &all, DEEPEST)
        };
        assert_eq!(of("crate::a::b::C", "c"), Some(module("a::b")));
        assert_eq!(of("super::super::c::d", "a::b"), Some(module("c")));
        assert_eq!(of("b::E", "a"), Some(module("a::b")));
        assert_eq!(of("std::io", "a"), None);
        // Handed on under another name, and that again.
        assert_eq!(of("super::c::H", "d"), Some(module("a::b")));
        assert_eq!(of("crate::F", "a"), Some(module("d")));
        assert_eq!(of("crate::K", "a"), None);
        // By the name that it has here; and by that which it has above, but nowhere else.
        assert_eq!(of("e::H", "d"), Some(module("a::b")));
        assert_eq!(of("super::e::H", "d::f"), Some(module("a::b")));
        assert_eq!(of("crate::d::e::H", "c"), Some(module("d")));
    }
}

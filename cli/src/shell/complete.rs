//! Completion of commands, options and paths.

use super::lexer;
use super::line::grammar;
use crate::interrupt;
use crate::names::shown;
use crate::session::Global;
use crate::session::{address, kind_of, list, tells, Access, End};
use reedline::{CompletionResult, Span, Suggestion};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tane::Address;
use tane_linux::{Entries, Kind};

/// Most names that are shown.
const MOST: usize = 2000;

pub struct Completer {
    pub global: Global,
}

impl reedline::Completer for Completer {
    fn complete(&mut self, line: &str, at: usize) -> CompletionResult {
        let typed = line
            .get(..at)
            .and_then(|text| lexer::typed(text.as_bytes()));
        let Some(typed) = typed else {
            return CompletionResult::fresh(Vec::new());
        };
        // What follows enters the image's kernel.
        let found = interrupt::with_resizes(false, || self.candidates(&typed.words, &typed.word));
        let suggestion = |c: Candidate| Suggestion {
            value: c.text,
            display_override: Some(c.shown),
            span: Span::new(typed.start, at),
            append_whitespace: c.whole,
            ..Suggestion::default()
        };
        let found: Vec<_> = found.into_iter().map(suggestion).collect();
        CompletionResult::fresh(found)
    }
}

/// What a word may become.
struct Candidate {
    shown: String,
    text: String,
    /// Nothing more can follow in this word.
    whole: bool,
}

impl Completer {
    fn candidates(&self, words: &[OsString], word: &[u8]) -> Vec<Candidate> {
        let grammar = grammar(true);
        let Some((verb, rest)) = words.split_first() else {
            return commands(&grammar, word);
        };
        if verb == "help" {
            return commands(&grammar, word);
        }
        let Some(mut command) = grammar.find_subcommand(verb) else {
            return Vec::new();
        };
        for word in rest {
            command = command.find_subcommand(word).unwrap_or(command);
        }
        if word.starts_with(b"-") {
            return options(command, &grammar, word);
        }
        if command.has_subcommands() {
            return commands(command, word);
        }
        let on_host = match verb.as_bytes() {
            b"lcd" | b"open" | b"close" => true,
            b"put" => rest.is_empty(),
            b"get" => !rest.is_empty(),
            _ => false,
        };
        self.paths(word, on_host)
    }

    /// Names in the directory that a word begins with.
    fn paths(&self, word: &[u8], on_host: bool) -> Vec<Candidate> {
        let dir = word.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
        let (mut dir, name) = word.split_at(dir);
        let mut before: &[u8] = b"";
        if !on_host && dir.is_empty() && word.starts_with(b"host:") {
            (before, dir) = (b"host:", b"");
        }
        let name = &name[before.len()..];
        let place = [before, dir].concat();
        let at = match (on_host, &place[..]) {
            (true, b"") => Address::Host(".".into()),
            (true, dir) => Address::Host(OsStr::from_bytes(dir).into()),
            (false, b"host:") => Address::Host(".".into()),
            (false, b"") => match address(OsStr::new("."), &self.global) {
                Ok(at) => at,
                Err(_) => return Vec::new(),
            },
            (false, place) => match address(OsStr::from_bytes(place), &self.global) {
                Ok(at) => at,
                Err(_) => return Vec::new(),
            },
        };
        let names = self.names(&at, name).unwrap_or_default();
        let candidate = |(name, is_dir): (Vec<u8>, bool)| {
            let slash: &[u8] = if is_dir { b"/" } else { b"" };
            let whole = shown(&[before, dir, &name, slash].concat()).into_owned();
            Candidate {
                shown: shown(&[&name, slash].concat()).into_owned(),
                text: whole,
                whole: !is_dir,
            }
        };
        names.into_iter().take(MOST).map(candidate).collect()
    }

    fn names(&self, at: &Address, prefix: &[u8]) -> Option<Vec<(Vec<u8>, bool)>> {
        if let (Address::Host(dir), true) = (at, tells()) {
            return on_host(dir, prefix);
        }
        let end = End::open(at, Access::Read, &self.global).ok()?;
        let path = match at {
            Address::Host(path) => path.as_os_str().as_bytes(),
            Address::Image(at) => &at.path,
        };
        let mut found = Vec::new();
        {
            let root = end.root().ok()?;
            let dir = root.open_dir(path).ok()?;
            let mut entries = Entries::read(&dir).ok()?;
            entries.sort_by_name();
            for entry in &entries.list {
                let name = entries.name(entry);
                let bytes = name.to_bytes();
                if !may_become(bytes, prefix) {
                    continue;
                }
                // Through symlinks of the image, which lead nowhere else.
                let path = [path, b"/", bytes].concat();
                let is_dir = match entry.kind {
                    Some(Kind::Symlink) | None => {
                        let stat = root.stat(&path, true);
                        stat.is_ok_and(|s| s.kind() == Kind::Directory)
                    }
                    Some(kind) => kind == Kind::Directory,
                };
                found.push((bytes.to_vec(), is_dir));
            }
        }
        end.close().ok()?;
        Some(found)
    }
}

/// Whether a name completes what was typed of it.
fn may_become(name: &[u8], prefix: &[u8]) -> bool {
    let hidden = name.starts_with(b".") && prefix.is_empty();
    !hidden && name.starts_with(prefix)
}

/// Names of the host, in a jail that opens no directory.
fn on_host(dir: &Path, prefix: &[u8]) -> Option<Vec<(Vec<u8>, bool)>> {
    let names = list(dir).ok()?.into_iter();
    let names = names.filter(|(name, _)| may_become(name, prefix));
    let whole = |name: &[u8]| [dir.as_os_str().as_bytes(), b"/", name].concat();
    let with = |(name, kind): (Vec<u8>, Kind)| {
        let is_dir = match kind {
            Kind::Symlink => kind_of(&whole(&name), true) == Ok(Kind::Directory),
            kind => kind == Kind::Directory,
        };
        (name, is_dir)
    };
    Some(names.map(with).collect())
}

fn commands(command: &clap::Command, word: &[u8]) -> Vec<Candidate> {
    let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
    let names = visible.map(|c| c.get_name().to_owned());
    let names = names.chain(command.is_no_binary_name_set().then(|| "help".to_owned()));
    matching(names, word)
}

fn options(command: &clap::Command, above: &clap::Command, word: &[u8]) -> Vec<Candidate> {
    let shared = above.get_arguments().filter(|a| a.is_global_set());
    let all = command.get_arguments().chain(shared);
    let visible = all.filter(|a| !a.is_hide_set());
    let names = visible.flat_map(|a| {
        let long = a.get_long().map(|l| format!("--{l}"));
        let short = a.get_short().map(|s| format!("-{s}"));
        [long, short]
    });
    matching(names.flatten().chain(["--help".to_owned()]), word)
}

fn matching(names: impl Iterator<Item = String>, word: &[u8]) -> Vec<Candidate> {
    let mut names: Vec<_> = names.filter(|n| n.as_bytes().starts_with(word)).collect();
    names.sort();
    names.dedup();
    let candidate = |name: String| Candidate {
        shown: name.clone(),
        text: name,
        whole: true,
    };
    names.into_iter().map(candidate).collect()
}

//! Patterns of a line: words that stand for files, unless they are quoted.

use super::lexer::{Word, Words};
use crate::expand::{self, Tree};
use crate::failure::{Failure, Result, SOME_FAILED, USAGE};
use crate::names::plain;
use crate::session::Global;
use crate::session::{address, tells, Access, Listed, Session, HOST};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use tane::{Address, ImagePath};
use tane_linux::{Errno, Root, Sys};

/// Commands that would take a second match for something else.
const OF_ONE: [&str; 7] = ["cd", "close", "get", "lcd", "ln", "open", "put"];

/// The words of a command with all matches in place of patterns. Options are none.
pub fn expanded(words: Vec<Word>, global: &Global) -> Result<Words> {
    let mut all: Words = Vec::new();
    for word in words {
        let Some(pattern) = word.pattern.filter(|_| !all.is_empty()) else {
            all.push(word.text);
            continue;
        };
        if word.text.as_bytes().starts_with(b"-") {
            all.push(word.text);
            continue;
        }
        let shown = plain(word.text.as_bytes());
        let found = matches(&word.text, &pattern, global)?;
        if found.is_empty() {
            let text = format!("{shown}: no file matches: quote it if it is no pattern");
            return Err(Failure::new(SOME_FAILED, text));
        }
        let command = all[0].to_str().unwrap_or_default();
        if found.len() > 1 && OF_ONE.contains(&command) {
            let text = format!("{command}: {shown} stands for {} files", found.len());
            return Err(Failure::new(USAGE, text));
        }
        all.extend(found);
    }
    Ok(all)
}

/// What a word stands for, in the words that the commands know.
fn matches(text: &OsString, pattern: &[u8], global: &Global) -> Result<Vec<OsString>> {
    let bytes = text.as_bytes();
    let fail = |e: Errno| Failure::file(bytes, e);
    match address(text, global)? {
        Address::Host(path) => {
            let before = bytes.len() - path.as_os_str().len();
            let host = Root::host(Sys(&HOST));
            let root: &dyn Tree = if tells() { &Listed } else { &host };
            below(root, b".", bytes, pattern, before).map_err(fail)
        }
        Address::Image(at) => {
            let (before, base) = place(bytes, &at, global);
            let session = Session::open(&at, Access::Read, global)?;
            let root = session.root()?;
            let found = below(&root, &base, bytes, pattern, before).map_err(fail);
            drop(root);
            session.close()?;
            found
        }
    }
}

/// How much of a word is the image's name, and where a path behind it begins.
fn place(word: &[u8], at: &ImagePath, global: &Global) -> (usize, Vec<u8>) {
    let here = global.kept.here();
    match here.filter(|here| here.path(word).path == at.path) {
        Some(here) => (0, here.dir),
        None => (word.len().saturating_sub(at.path.len()), b"/".to_vec()),
    }
}

/// The matches of what is behind the first bytes of a word, with these in front.
fn below(
    root: &dyn Tree,
    base: &[u8],
    word: &[u8],
    pattern: &[u8],
    before: usize,
) -> std::result::Result<Vec<OsString>, Errno> {
    let (start, path) = word.split_at(before);
    let whole = match path {
        [b'/', ..] => path.to_vec(),
        _ => [base, b"/", path].concat(),
    };
    if root.kind(&whole, false).is_ok() {
        return Ok(vec![OsString::from_vec(word.to_vec())]);
    }
    let found = expand::matches(root, base, behind(pattern, before))?;
    let with = |path: Vec<u8>| OsString::from_vec([start, &path].concat());
    Ok(found.into_iter().map(with).collect())
}

/// A pattern without its first bytes, a sign and its \ being one.
fn behind(pattern: &[u8], bytes: usize) -> &[u8] {
    let mut at = 0;
    for _ in 0..bytes {
        at += if pattern.get(at) == Some(&b'\\') {
            2
        } else {
            1
        };
    }
    pattern.get(at..).unwrap_or_default()
}

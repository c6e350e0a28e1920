//! tane find: walks a directory and prints what matches.

use super::entry;
use crate::args::{parse_size, Global};
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::session::{for_each_image, Access};
use crate::show;
use crate::sys::{Errno, Root, Time};
use crate::users::Users;
use crate::walk::{walk, Next, Visit, Visitor};
use std::ffi::OsString;

/// Find files of an image by name, type, size or age
#[derive(clap::Args)]
#[command(after_help = "\
All tests must hold. find's own spelling (-name, -print0, ...) is understood too.

Examples:
  tane find disk.img --name '*.conf'
  tane find disk.img:/var -type f -size +1M
  tane find disk.img --newer disk.img:/etc/machine-id --json")]
pub struct Args {
    /// Images or directories in them
    #[arg(required = true, value_name = "IMAGE[:/PATH]")]
    pub paths: Vec<OsString>,
    /// The name matches a pattern with *, ? and [...]
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub name: Option<String>,
    /// As --name, ignoring case (of ASCII letters)
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    pub iname: Option<String>,
    /// The type is one of these letters: f, d, l, p, s, c, b
    #[arg(long = "type", value_name = "LETTERS", value_parser = types)]
    pub kinds: Option<String>,
    /// At least (+SIZE), at most (-SIZE) or exactly SIZE bytes; K, M, G work
    #[arg(long, value_name = "[+-]SIZE", allow_hyphen_values = true, value_parser = size_test)]
    pub size: Option<SizeTest>,
    /// Modified later than this file of the same image
    #[arg(long, value_name = "[IMAGE:]/PATH")]
    pub newer: Option<OsString>,
    /// Go down at most this many directories
    #[arg(long, value_name = "LEVELS")]
    pub maxdepth: Option<usize>,
    /// Raw names, each ended by a NUL
    #[arg(short = '0', long, visible_alias = "zero")]
    pub print0: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct SizeTest {
    order: std::cmp::Ordering,
    size: u64,
}

fn size_test(text: &str) -> std::result::Result<SizeTest, String> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    let (order, digits) = match text.as_bytes() {
        [b'+', ..] => (Greater, &text[1..]),
        [b'-', ..] => (Less, &text[1..]),
        _ => (Equal, text),
    };
    // find's "c" means bytes, as does no suffix here.
    let size = parse_size(digits.strip_suffix('c').unwrap_or(digits))?;
    Ok(SizeTest { order, size })
}

fn types(text: &str) -> std::result::Result<String, String> {
    let letters: String = text.chars().filter(|&c| c != ',').collect();
    match letters.chars().find(|c| !"fdlpscb".contains(*c)) {
        None if !letters.is_empty() => Ok(letters),
        _ => Err("use the letters f, d, l, p, s, c and b".into()),
    }
}

/// Lets `tane find` understand `-name` where clap wants `--name`.
pub fn accept_single_dashes(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let words = [
        "-name",
        "-iname",
        "-type",
        "-size",
        "-newer",
        "-maxdepth",
        "-print0",
    ];
    let mut is_find = false;
    let fix = |arg: OsString| {
        is_find |= arg == "find";
        match arg.to_str() {
            Some(text) if is_find && words.contains(&text) => format!("-{text}").into(),
            _ => arg,
        }
    };
    args.map(fix).collect()
}

struct Finder<'r> {
    args: &'r Args,
    newer: Option<Time>,
    out: &'r mut Output,
    users: Option<Users>,
    all_well: bool,
}

pub fn run(args: Args, global: &Global) -> Result<u8> {
    let mut out = Output::new();
    let code = for_each_image(&args.paths, Access::Read, global, |root, items| {
        let users = global.json.then(|| Users::of(root));
        let newer = args
            .newer
            .as_ref()
            .map(|n| reference(root, n, global))
            .transpose()?;
        let mut finder = Finder {
            args: &args,
            newer,
            out: &mut out,
            users,
            all_well: true,
        };
        for item in items {
            match entry(root, item.path()) {
                Ok((dir, name)) => walk(&dir, &name, item.path(), &mut finder)?,
                Err(e) => finder.all_well = item.complain(e),
            }
        }
        Ok(finder.all_well)
    })?;
    out.flush()?;
    Ok(code)
}

/// The time of the file that --newer names: a path inside, with or without
/// the image in front of it.
fn reference(root: &Root, argument: &OsString, global: &Global) -> Result<Time> {
    let bytes = argument.as_encoded_bytes();
    let here = global.kept.here().map(|here| here.path(bytes).path);
    let path = match bytes.windows(2).position(|w| w == b":/") {
        Some(colon) if !bytes.starts_with(b"/") => &bytes[colon + 1..],
        _ => here.as_deref().unwrap_or(bytes),
    };
    let stat = root.stat(path, true).map_err(|e| Failure::file(bytes, e))?;
    Ok(stat.mtime)
}

impl Finder<'_> {
    fn matches(&self, visit: &Visit) -> bool {
        let base = crate::sys::base_name(visit.path).unwrap_or(b"/");
        let Args {
            name,
            iname,
            kinds,
            size,
            ..
        } = self.args;
        let lower = || base.to_ascii_lowercase();
        name.as_ref().is_none_or(|p| glob(p.as_bytes(), base))
            && iname
                .as_ref()
                .is_none_or(|p| glob(p.to_ascii_lowercase().as_bytes(), &lower()))
            && kinds
                .as_ref()
                .is_none_or(|k| k.contains(visit.stat.kind().letter()))
            && size.is_none_or(|t| match visit.stat.size.cmp(&t.size) {
                std::cmp::Ordering::Equal => true,
                order => order == t.order,
            })
            && self.newer.is_none_or(|t| visit.stat.mtime > t)
    }
}

impl Visitor for Finder<'_> {
    type Error = Failure;

    fn visit(&mut self, visit: &Visit) -> Result<Next> {
        if visit.after {
            return Ok(Next::Past);
        }
        if self.matches(visit) {
            if let Some(users) = &self.users {
                self.out
                    .json(&show::json("path", visit.path, visit.stat, users).into())?;
            } else if self.args.print0 {
                self.out.bytes(visit.path)?;
                self.out.bytes(b"\0")?;
            } else {
                self.out.name(visit.path)?;
                self.out.text("\n")?;
            }
        }
        let deep = self.args.maxdepth.is_some_and(|max| visit.depth >= max);
        Ok(if deep { Next::Past } else { Next::Into })
    }

    fn unreadable(&mut self, path: &[u8], error: Errno) {
        self.all_well = false;
        eprintln!("tane: {}", Failure::file(path, error));
    }
}

/// Does a shell pattern match all of a name? Byte by byte, in linear space,
/// with one point to go back to: no pattern takes exponential time.
pub fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        if n == name.len() && pattern[p..].iter().all(|&c| c == b'*') {
            return true;
        }
        if pattern.get(p) == Some(&b'*') {
            back = Some((p + 1, n));
            p += 1;
            continue;
        }
        if n < name.len() {
            if let Some(length) = matches_one(&pattern[p..], name[n]) {
                p += length;
                n += 1;
                continue;
            }
        }
        match back {
            Some((after, from)) if from < name.len() => {
                back = Some((after, from + 1));
                (p, n) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// How long the pattern's first element is, if it matches a byte.
fn matches_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', c, ..] => (*c == byte).then_some(2),
        [b'[', set @ ..] => {
            let (negated, set) = match set {
                [b'!' | b'^', rest @ ..] => (true, rest),
                _ => (false, set),
            };
            // A "]" in the first place is a member.
            let Some(end) = set.iter().skip(1).position(|&c| c == b']').map(|i| i + 1) else {
                return (byte == b'[').then_some(1);
            };
            let mut found = false;
            let mut i = 0;
            while i < end {
                if i + 2 < end && set[i + 1] == b'-' {
                    found |= (set[i]..=set[i + 2]).contains(&byte);
                    i += 3;
                } else {
                    found |= set[i] == byte;
                    i += 1;
                }
            }
            (found != negated).then_some(end + 2 + usize::from(negated))
        }
        [c, ..] => (*c == byte).then_some(1),
        [] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_find() {
        for (pattern, name) in [
            ("*", "anything"),
            ("*.conf", "a.conf"),
            ("*.conf", ".conf"),
            ("a?c", "abc"),
            ("[a-c]x[!0-9]", "bxy"),
            ("[]]", "]"),
            ("\\*", "*"),
            ("*a*b*", "xxaxxbxx"),
            ("[", "["),
            ("", ""),
        ] {
            assert!(
                glob(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
        for (pattern, name) in [
            ("*.conf", "a.config"),
            ("a?c", "ac"),
            ("[!a]", "a"),
            ("", "x"),
            ("x", ""),
            ("*a*b", "xbxa"),
        ] {
            assert!(
                !glob(pattern.as_bytes(), name.as_bytes()),
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn find_spelling_is_understood_after_the_verb_only() {
        let args = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let fixed = accept_single_dashes(args("tane find d.img -name x -0").into_iter());
        assert_eq!(fixed, args("tane find d.img --name x -0"));
        let same = args("tane ls -name");
        assert_eq!(accept_single_dashes(same.clone().into_iter()), same);
    }
}

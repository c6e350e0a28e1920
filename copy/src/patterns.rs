//! Patterns of names, as in sh: `*`, `?`, `[...]` and, of directories, `**`. Names and
//! patterns are bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// What --exclude says.
#[derive(Clone, Debug, Default)]
pub struct Excludes(Vec<Exclude>);

#[derive(Clone, Debug)]
struct Exclude {
    /// Without slashes: a name, wherever it is. Else a path, from the top on.
    parts: Vec<Vec<u8>>,
    is_path: bool,
    only_directories: bool,
}

impl Excludes {
    /// These patterns, as --exclude takes them.
    pub fn new(patterns: &[OsString]) -> Excludes {
        Excludes(
            patterns
                .iter()
                .map(|p| Exclude::new(p.as_bytes()))
                .collect(),
        )
    }

    /// Whether this is left out, with all below it. `path` is below the top.
    pub fn has(&self, path: &[u8], is_dir: bool) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let parts = split(path);
        self.0.iter().any(|exclude| exclude.matches(&parts, is_dir))
    }

    /// Whether a path is left out, be it for a directory that it is in.
    pub fn has_within(&self, path: &[u8], is_dir: bool) -> bool {
        let parts = split(path);
        let part = |n: usize| (&parts[..n], n < parts.len() || is_dir);
        let mut above = (1..=parts.len()).map(part);
        above.any(|(parts, is_dir)| self.0.iter().any(|e| e.matches(parts, is_dir)))
    }
}

impl Exclude {
    fn new(pattern: &[u8]) -> Exclude {
        let path = pattern.strip_suffix(b"/").unwrap_or(pattern);
        Exclude {
            parts: split(path).into_iter().map(<[u8]>::to_vec).collect(),
            is_path: path.contains(&b'/'),
            only_directories: path.len() < pattern.len(),
        }
    }

    fn matches(&self, path: &[&[u8]], is_dir: bool) -> bool {
        if self.only_directories && !is_dir {
            return false;
        }
        match (&self.parts[..], path.last()) {
            ([pattern], Some(name)) if !self.is_path => glob(pattern, name),
            (parts, Some(_)) => glob_path(parts, path),
            _ => false,
        }
    }
}

/// The names in a path.
fn split(path: &[u8]) -> Vec<&[u8]> {
    let parts = path.split(|b| *b == b'/');
    parts
        .filter(|part| !part.is_empty() && *part != b".")
        .collect()
}

/// Does a pattern match all of a path, name by name? `**` stands for any number of
/// them. Like [`glob`] it goes back to one point only.
fn glob_path(pattern: &[Vec<u8>], path: &[&[u8]]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    loop {
        if n == path.len() && pattern[p..].iter().all(|part| part == b"**") {
            return true;
        }
        if pattern.get(p).is_some_and(|part| part == b"**") {
            back = Some((p + 1, n));
            p += 1;
            continue;
        }
        if n < path.len() && pattern.get(p).is_some_and(|part| glob(part, path[n])) {
            p += 1;
            n += 1;
            continue;
        }
        match back {
            Some((after, from)) if from < path.len() => {
                back = Some((after, from + 1));
                (p, n) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

/// Whether a name of a path stands for others.
pub fn has_wildcards(part: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = part.get(at) {
        match byte {
            b'*' | b'?' => return true,
            // A set has something in it, which may be a bracket.
            b'[' if part[at + 1..].iter().skip(1).any(|b| *b == b']') => return true,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    false
}

/// A pattern without wildcards as the name that it stands for.
pub fn unescaped(part: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(part.len());
    let mut bytes = part.iter().copied();
    while let Some(byte) = bytes.next() {
        let escaped = (byte == b'\\').then(|| bytes.next()).flatten();
        name.push(escaped.unwrap_or(byte));
    }
    name
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
    fn wildcards_are_those_that_are_not_escaped() {
        for pattern in ["*", "a?", "[a]", "[]]", "\\\\*", "a[!b]"] {
            assert!(has_wildcards(pattern.as_bytes()), "{pattern}");
        }
        for name in ["", "a", "\\*", "[", "[]", "a\\[b]", "a\\"] {
            assert!(!has_wildcards(name.as_bytes()), "{name}");
        }
        assert_eq!(unescaped(b"a\\*\\\\b\\"), b"a*\\b\\");
    }

    #[test]
    fn excludes_are_names_anywhere_or_paths_from_the_top() {
        let has = |pattern: &str, path: &str, is_dir| {
            Excludes::new(&[pattern.into()]).has(path.as_bytes(), is_dir)
        };
        for (pattern, path) in [
            ("*.o", "a.o"),
            ("*.o", "d/e/a.o"),
            ("d/*.o", "d/a.o"),
            ("/a.o", "a.o"),
            ("./d/e", "/d/e"),
            ("**/e", "e"),
            ("**/e", "c/d/e"),
            ("c/**", "c/d/e"),
            ("c/**/e", "c/e"),
            ("c/**/e", "c/x/y/e"),
        ] {
            assert!(has(pattern, path, false), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("*.o", "a.oo"),
            ("d/*.o", "d/e/a.o"),
            ("d/*.o", "c/d/a.o"),
            ("/a.o", "d/a.o"),
            ("d/", "d"),
            ("c/**/e", "c/x/y/f"),
            ("", "a"),
            ("/", "a"),
        ] {
            assert!(!has(pattern, path, false), "{pattern} {path}");
        }
        assert!(has("d/", "x/d", true));
        let excludes = Excludes::new(&["cache/".into(), "*.o".into()]);
        assert!(excludes.has_within(b"a/cache/f", false));
        assert!(!excludes.has_within(b"a/cache", false));
        assert!(!excludes.has_within(b"a/f", false));
        assert!(!Excludes::default().has_within(b"a", false));
    }
}

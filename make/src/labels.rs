//! SELinux labels by path, from file_contexts(5): a regular expression, perhaps a
//! kind of file, and a label, a line each. Of those that match the last one counts,
//! and one without any wildcard before all others, as libselinux has it.

use super::tree::{Id, Tree};
use regex::bytes::{Regex, RegexBuilder};
use tane_linux::Kind;

struct Line {
    regex: Regex,
    /// What every path that matches starts with.
    stem: Vec<u8>,
    exact: bool,
    kind: Option<Kind>,
    /// None: no label at all.
    label: Option<Vec<u8>>,
}

#[derive(Default)]
pub struct Labels(Vec<Line>);

impl Labels {
    /// Adds the lines of a file; an error names the line.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        for (n, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |e: &str| format!("line {}: {e}", n + 1);
            self.0.push(parse(line).map_err(|e| at(&e))?);
        }
        // Stable: the file's order stays among each sort.
        self.0.sort_by_key(|line| line.exact);
        Ok(())
    }

    fn label(&self, path: &[u8], kind: Kind) -> Option<&[u8]> {
        let line = self.0.iter().rfind(|line| {
            path.starts_with(&line.stem)
                && line.kind.is_none_or(|want| want == kind)
                && line.regex.is_match(path)
        });
        line?.label.as_deref()
    }

    /// Labels every file of the tree by its first path.
    pub fn apply(&self, tree: &mut Tree) {
        let all: Vec<(Vec<u8>, Id)> = tree.walk();
        for (path, id) in all {
            let path = if path.is_empty() { &b"/"[..] } else { &path };
            let kind = tree.node(id).stat.kind();
            if let Some(label) = self.label(path, kind) {
                // The kernel's own tools count the NUL in.
                let value = [label, b"\0"].concat();
                tree.node_mut(id).set_xattr(c"security.selinux", &value);
            }
        }
    }
}

fn parse(line: &str) -> Result<Line, String> {
    let words: Vec<_> = line.split_whitespace().collect();
    let (pattern, kind, label) = match words[..] {
        [pattern, label] => (pattern, None, label),
        [pattern, kind, label] => (pattern, Some(kind), label),
        _ => return Err("has not two or three words".into()),
    };
    let kind = match kind {
        None => None,
        Some("--") => Some(Kind::File),
        Some("-d") => Some(Kind::Directory),
        Some("-l") => Some(Kind::Symlink),
        Some("-c") => Some(Kind::CharDevice),
        Some("-b") => Some(Kind::BlockDevice),
        Some("-p") => Some(Kind::Fifo),
        Some("-s") => Some(Kind::Socket),
        Some(other) => return Err(format!("{other} is no kind of file")),
    };
    let (stem, exact) = stem(pattern);
    let regex = RegexBuilder::new(&format!("^(?:{pattern})$"))
        .unicode(false)
        .dot_matches_new_line(true)
        .build()
        .map_err(|_| format!("{pattern} is no regular expression that can be used here"))?;
    Ok(Line {
        regex,
        stem,
        exact,
        kind,
        label: (label != "<<none>>").then(|| label.as_bytes().to_vec()),
    })
}

/// The plain text that a pattern starts with, and whether it is all of it.
fn stem(pattern: &str) -> (Vec<u8>, bool) {
    let mut stem = Vec::new();
    if pattern.contains('|') {
        return (stem, false);
    }
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(next) if !next.is_ascii_alphanumeric() => stem.push(next),
                _ => return (stem, false),
            },
            b'.' | b'^' | b'$' | b'+' | b'(' | b')' | b'[' | b']' => return (stem, false),
            // What is before it may come no time at all.
            b'*' | b'?' | b'{' => {
                stem.pop();
                return (stem, false);
            }
            byte => stem.push(byte),
        }
    }
    (stem, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
/.*\tsystem_u:object_r:default_t:s0
/etc(/.*)?  system_u:object_r:etc_t:s0
/etc/shadow -- system_u:object_r:shadow_t:s0
/etc/.*\\.conf system_u:object_r:conf_t:s0
/dev/null -c system_u:object_r:null_device_t:s0
/proc/.* <<none>>
/usr/(local/)?bin(/.*)? system_u:object_r:bin_t:s0
";

    #[test]
    fn the_last_match_counts_and_plain_paths_before_patterns() {
        let mut labels = Labels::default();
        labels.read(FILE).expect("a file");
        let of = |path: &str, kind| {
            let label = labels.label(path.as_bytes(), kind)?;
            Some(String::from_utf8_lossy(label).split(':').nth(2)?.to_owned())
        };
        let file = |path| of(path, Kind::File).unwrap_or_default();
        assert_eq!(file("/x"), "default_t");
        assert_eq!(file("/etc/x"), "etc_t");
        assert_eq!(file("/etc"), "etc_t");
        assert_eq!(file("/etcetera"), "default_t");
        assert_eq!(file("/etc/shadow"), "shadow_t");
        assert_eq!(of("/etc/shadow", Kind::Symlink).as_deref(), Some("etc_t"));
        assert_eq!(file("/etc/a.conf"), "conf_t");
        assert_eq!(file("/etc/aconf"), "etc_t");
        assert_eq!(file("/usr/local/bin/x"), "bin_t");
        assert_eq!(file("/usr/bin"), "bin_t");
        assert_eq!(
            of("/dev/null", Kind::CharDevice).as_deref(),
            Some("null_device_t")
        );
        assert_eq!(of("/proc/x", Kind::File), None);
    }
}

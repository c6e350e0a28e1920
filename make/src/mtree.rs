//! mtree(5): who owns what, for who may not own it himself. A file that is listed
//! gets what its line says; devices, fifos, directories and symlinks that are only
//! listed are made. Digests and sizes are not looked at.

use super::tree::{parent_and_name, parts, plain_stat, Content, Node, Tree, ROOT};
use std::collections::HashMap;
use tane_linux::{Kind, Time};

/// Applies a specification; an error names its line.
pub fn apply(tree: &mut Tree, text: &[u8]) -> Result<(), String> {
    let mut defaults: HashMap<String, Vec<u8>> = HashMap::new();
    let mut here: Vec<Vec<u8>> = Vec::new();
    let mut pending = Vec::new();
    for (n, line) in text.split(|b| *b == b'\n').enumerate() {
        let at = |what: &str| format!("line {}: {what}", n + 1);
        let line = line.trim_ascii();
        if line.first() == Some(&b'#') {
            continue;
        }
        pending.extend_from_slice(line);
        if pending.last() == Some(&b'\\') {
            pending.pop();
            pending.push(b' ');
            continue;
        }
        let line = std::mem::take(&mut pending);
        let mut words = line
            .split(|b| b.is_ascii_whitespace())
            .filter(|w| !w.is_empty());
        let Some(first) = words.next() else { continue };
        match first {
            b"/set" => {
                for word in words {
                    let (key, value) = keyword(word);
                    defaults.insert(key, value);
                }
                continue;
            }
            b"/unset" => {
                for word in words {
                    defaults.remove(&keyword(word).0);
                }
                continue;
            }
            b".." => {
                here.pop().ok_or_else(|| at("leads out of the tree"))?;
                continue;
            }
            _ => {}
        }
        let mut keys = defaults.clone();
        keys.extend(words.map(keyword));
        let name = unescape(first);
        let path = match name.contains(&b'/') {
            true => name.clone(),
            false => [&here.join(&b'/')[..], b"/", &name].concat(),
        };
        let is_dir = entry(tree, &path, &keys).map_err(|e| at(&e))?;
        if is_dir && !name.contains(&b'/') {
            match &name[..] {
                b"." => {}
                _ => here.push(name),
            }
        }
    }
    Ok(())
}

/// Whether it is a directory.
fn entry(tree: &mut Tree, path: &[u8], keys: &HashMap<String, Vec<u8>>) -> Result<bool, String> {
    let text = |key: &str| {
        let value = keys.get(key).map(|v| String::from_utf8_lossy(v));
        value.map(|v| v.into_owned())
    };
    let wrong = |key: &str| format!("{key} makes no sense");
    let kind = match text("type").as_deref() {
        None => None,
        Some("file") => Some(libc::S_IFREG),
        Some("dir") => Some(libc::S_IFDIR),
        Some("link") => Some(libc::S_IFLNK),
        Some("char") => Some(libc::S_IFCHR),
        Some("block") => Some(libc::S_IFBLK),
        Some("fifo") => Some(libc::S_IFIFO),
        Some("socket") => Some(libc::S_IFSOCK),
        Some(_) => return Err(wrong("type")),
    };
    let shown = || String::from_utf8_lossy(path).into_owned();
    let id = if parts(path).is_some_and(|parts| parts.is_empty()) {
        ROOT
    } else if let Some(id) = tree.find(path) {
        id
    } else {
        let kind = kind.filter(|kind| *kind != libc::S_IFREG);
        let optional = keys.contains_key("optional");
        let Some(kind) = kind else {
            return match optional {
                true => Ok(false),
                false => Err(format!("{} is not in the tree", shown())),
            };
        };
        let (above, name) = parent_and_name(path).map_err(|_| wrong("the path"))?;
        let dir = tree.directory(&above, 0);
        let mode = if kind == libc::S_IFDIR { 0o755 } else { 0o644 };
        tree.put(dir, name, Node::new(plain_stat(kind | mode)))
    };
    let node = tree.node_mut(id);
    if kind.is_some_and(|kind| kind != node.stat.mode & libc::S_IFMT) {
        // Who is not root keeps devices as ordinary files.
        let placeholder = node.stat.kind() == Kind::File && node.stat.size == 0;
        if !placeholder || kind == Some(libc::S_IFDIR) {
            return Err(format!("{} is of another type", shown()));
        }
        node.stat.mode = node.stat.mode & 0o7777 | kind.unwrap_or(libc::S_IFREG);
        node.content = Content::None;
    }
    let number = |key: &str| -> Result<Option<u32>, String> {
        let value = text(key).map(|v| v.parse().map_err(|_| wrong(key)));
        value.transpose()
    };
    if let Some(uid) = number("uid")? {
        node.stat.uid = uid;
    }
    if let Some(gid) = number("gid")? {
        node.stat.gid = gid;
    }
    for (key, by_id) in [("uname", "uid"), ("gname", "gid")] {
        match text(key).as_deref() {
            Some("root") if !keys.contains_key(by_id) && key == "uname" => node.stat.uid = 0,
            Some("root" | "wheel") if !keys.contains_key(by_id) => node.stat.gid = 0,
            Some(_) if !keys.contains_key(by_id) => {
                return Err(format!("{key} is given without {by_id}: names differ"));
            }
            _ => {}
        }
    }
    if let Some(mode) = text("mode") {
        let bits = u32::from_str_radix(&mode, 8).map_err(|_| wrong("mode"))?;
        node.stat.mode = node.stat.mode & libc::S_IFMT | bits & 0o7777;
    }
    if let Some(time) = text("time") {
        node.stat.mtime = seconds(&time).ok_or_else(|| wrong("time"))?;
    }
    if let Some(target) = keys
        .get("link")
        .filter(|_| node.stat.kind() == Kind::Symlink)
    {
        node.target = unescape(target);
    }
    if let Some(device) = text("device").filter(|_| node.stat.kind().is_device()) {
        node.stat.rdev = device_number(&device).ok_or_else(|| wrong("device"))?;
    }
    Ok(node.is_dir())
}

fn keyword(word: &[u8]) -> (String, Vec<u8>) {
    let at = word.iter().position(|b| *b == b'=');
    let (key, value) = at.map_or((word, &b""[..]), |at| (&word[..at], &word[at + 1..]));
    (String::from_utf8_lossy(key).into_owned(), value.to_vec())
}

/// Seconds, and behind a point nanoseconds as a number (not as a fraction).
fn seconds(text: &str) -> Option<Time> {
    let (sec, nsec) = text.split_once('.').unwrap_or((text, "0"));
    let (sec, nsec) = (sec.parse().ok()?, nsec.parse().ok()?);
    (nsec < 1_000_000_000).then_some(Time { sec, nsec })
}

/// `native,MAJOR,MINOR` of some system's name, `MAJOR,MINOR`, or the number.
fn device_number(text: &str) -> Option<u64> {
    let parts: Vec<_> = text.split(',').collect();
    let number = |t: &str| -> Option<u32> {
        match t.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => t.parse().ok(),
        }
    };
    match parts[..] {
        [_, major, minor] | [major, minor] => Some(libc::makedev(number(major)?, number(minor)?)),
        [one] => number(one).map(u64::from),
        _ => None,
    }
}

/// vis(3): `\ooo`, `\s` and the like.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest {
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            [letter, after @ ..] => {
                out.push(match letter {
                    b's' => b' ',
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'r' => b'\r',
                    other => *other,
                });
                rest = after;
            }
            [] => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: &str = "#mtree\n\
        /set type=file uid=0 gid=0 mode=0644\n\
        . type=dir mode=0755\n\
        etc type=dir mode=0750 gid=4\n\
        a\\040b mode=04711 uid=7\n\
        ..\n\
        ./dev/null type=char \\\n  device=native,1,3 mode=0666 time=5.7\n";

    #[test]
    fn lines_change_files_and_make_devices() {
        let mut tree = Tree::new();
        let dir = tree.directory(&[b"etc"], 0);
        tree.put(dir, b"a b", Node::new(plain_stat(libc::S_IFREG | 0o600)));
        apply(&mut tree, SPEC.as_bytes()).expect("a specification");
        let stat = |path: &str| tree.node(tree.find(path.as_bytes()).expect(path)).stat;
        let file = stat("/etc/a b");
        assert_eq!((file.mode, file.uid, file.gid), (0o104711, 7, 0));
        assert_eq!((stat("/etc").permissions(), stat("/etc").gid), (0o750, 4));
        let null = stat("/dev/null");
        assert_eq!((null.mode, null.rdev), (0o20666, libc::makedev(1, 3)));
        assert_eq!(null.mtime, Time { sec: 5, nsec: 7 });
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error_that_names_the_line() {
        let e = apply(&mut Tree::new(), b"#mtree\n./x type=file\n").expect_err("an error");
        assert!(e.contains("line 2") && e.contains("not in the tree"), "{e}");
    }
}

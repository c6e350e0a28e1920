//! Extended attributes as getfattr(1) dumps them: `# file: PATH`, then lines of
//! `NAME=VALUE`, as text in quotes, hexadecimal (0x) or base64 (0s). The way to
//! give capabilities without being root.

use super::tree::Tree;
use std::ffi::CString;

/// Gives the tree's files what is listed; an error names the line.
pub fn apply(tree: &mut Tree, text: &[u8]) -> Result<(), String> {
    let mut file = None;
    for (n, line) in text.split(|b| *b == b'\n').enumerate() {
        let at = |what: &str| format!("line {}: {what}", n + 1);
        if line.trim_ascii().is_empty() {
            continue;
        }
        if let Some(path) = line.strip_prefix(b"# file: ") {
            let path = unescape(path).ok_or_else(|| at("the name makes no sense"))?;
            let found = tree.find(&path);
            let missing = || format!("{} is not in the tree", String::from_utf8_lossy(&path));
            file = Some(found.ok_or_else(|| at(&missing()))?);
            continue;
        }
        if line[0] == b'#' {
            continue;
        }
        let file = file.ok_or_else(|| at("comes before any \"# file:\""))?;
        let equals = line.iter().position(|b| *b == b'=');
        let (name, value) = equals.map_or((line, &b"\"\""[..]), |i| (&line[..i], &line[i + 1..]));
        let value = decode(value).ok_or_else(|| at("the value makes no sense"))?;
        let name = CString::new(name).map_err(|_| at("the name makes no sense"))?;
        tree.node_mut(file).set_xattr(&name, &value);
    }
    Ok(())
}

fn decode(value: &[u8]) -> Option<Vec<u8>> {
    match value {
        [b'0', b'x' | b'X', digits @ ..] => {
            let text = std::str::from_utf8(digits).ok()?;
            let pairs = (0..text.len()).step_by(2).map(|i| text.get(i..i + 2));
            pairs.map(|p| u8::from_str_radix(p?, 16).ok()).collect()
        }
        [b'0', b's' | b'S', digits @ ..] => base64(digits),
        [b'"', text @ .., b'"'] => unescape(text),
        text => unescape(text),
    }
}

fn base64(text: &[u8]) -> Option<Vec<u8>> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let text: Vec<u8> = text.iter().copied().filter(|b| *b != b'=').collect();
    let mut out = Vec::new();
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for digit in group {
            bits = bits << 6 | DIGITS.iter().position(|d| d == digit)? as u32;
        }
        bits <<= 6 * (4 - group.len());
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(out)
}

/// `\ooo`, `\\` and `\"`.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        rest = match (byte, after) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                after
            }
            (b'\\', [other, after @ ..]) => {
                out.push(*other);
                after
            }
            (b'\\', []) => return None,
            _ => {
                out.push(*byte);
                after
            }
        };
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::super::tree::{plain_stat, Node, ROOT};
    use super::*;

    #[test]
    fn all_three_encodings_of_a_dump_are_read() {
        let mut tree = Tree::new();
        let node = Node::new(plain_stat(libc::S_IFREG | 0o755));
        let id = tree.put(ROOT, b"a b", node);
        let dump = b"# file: a\\040b\nuser.t=\"x\\\"y\"\nuser.h=0x0aff\nuser.b=0sAQIDBA==\n\n";
        apply(&mut tree, dump).expect("a dump");
        let all: Vec<_> = tree.node(id).xattrs.iter().collect();
        let wanted = [
            (c"user.t", &b"x\"y"[..]),
            (c"user.h", b"\x0a\xff"),
            (c"user.b", b"\x01\x02\x03\x04"),
        ];
        assert_eq!(all, wanted);
    }
}

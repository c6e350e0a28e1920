//! File names are bytes. On a terminal and in messages they are shown so that
//! they can neither hide nor steer anything; in JSON nothing is lost.

use serde_json::{Map, Value};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A name for people: as it is if harmless, else quoted for a shell.
pub fn shown(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(is_hidden) => {
            if !text.is_empty() && !text.chars().any(needs_quotes) {
                Cow::Borrowed(text)
            } else if !text.contains('\'') {
                Cow::Owned(format!("'{text}'"))
            } else if !text.contains(['"', '$', '`', '\\', '!']) {
                Cow::Owned(format!("\"{text}\""))
            } else {
                Cow::Owned(escaped(name))
            }
        }
        _ => Cow::Owned(escaped(name)),
    }
}

/// What a name that does not exist may have been meant as: a path in an image, as
/// `disk.img:etc` lacks a slash for.
pub fn without_slash(name: &[u8]) -> Option<String> {
    let is_file = |name: &[u8]| {
        let found = Path::new(OsStr::from_bytes(name)).metadata();
        found.is_ok_and(|m| !m.is_dir())
    };
    let colons = (1..name.len()).filter(|i| name[*i] == b':');
    let mut parts = colons.map(|colon| (&name[..colon], &name[colon + 1..]));
    let (image, path) = parts.find(|(left, right)| {
        let mut bare = (1..left.len()).filter(|i| left[*i] == b'@');
        !right.is_empty()
            && !right.starts_with(b"/")
            && (is_file(left) || bare.any(|at| is_file(&left[..at])))
    })?;
    let meant = [image, b":/", path].concat();
    Some(format!("in the image it is {}", plain(&meant)))
}

/// For messages: quoted only where a terminal or reader would be misled.
pub fn plain(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) if !text.is_empty() && !text.chars().any(is_hidden) => Cow::Borrowed(text),
        _ => shown(name),
    }
}

fn is_hidden(c: char) -> bool {
    // Control characters, and those that reorder or vanish.
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn needs_quotes(c: char) -> bool {
    c.is_whitespace() || "'\"\\$`!*?[]{}()<>|&;#~=^".contains(c)
}

/// Bash's $'…' form.
fn escaped(name: &[u8]) -> String {
    let mut out = String::from("$'");
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\'' | '\\' => {
                    out.push('\\');
                    out.push(c);
                }
                c if is_hidden(c) => {
                    for b in c.to_string().bytes() {
                        let _ = write!(out, "\\{b:03o}");
                    }
                }
                c => out.push(c),
            }
        }
        for b in chunk.invalid() {
            let _ = write!(out, "\\{b:03o}");
        }
    }
    out.push('\'');
    out
}

/// Puts a name into a JSON object: `key` as text, and, when the bytes are not
/// UTF-8, also `key_bytes` in hexadecimal.
pub fn put(object: &mut Map<String, Value>, key: &str, name: &[u8]) {
    object.insert(key.into(), String::from_utf8_lossy(name).into());
    if std::str::from_utf8(name).is_err() {
        object.insert(format!("{key}_bytes"), hex(name).into());
    }
}

/// An object of what is in `others`, and such a name.
pub fn named(key: &str, name: &[u8], others: Value) -> Value {
    let mut object = Map::new();
    put(&mut object, key, name);
    if let Value::Object(others) = others {
        object.extend(others);
    }
    object.into()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
            let _ = write!(out, "{b:02x}");
            out
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_quoted_and_escaped() {
        assert_eq!(shown(b"plain.txt"), "plain.txt");
        assert_eq!(shown("größe".as_bytes()), "größe");
        assert_eq!(shown(b"a b"), "'a b'");
        assert_eq!(shown(b"it's"), "\"it's\"");
        assert_eq!(shown(b"'\"$"), "$'\\'\"$'");
        assert_eq!(shown(b""), "''");
        assert_eq!(shown(b"new\nline"), "$'new\\nline'");
        assert_eq!(shown(b"\x1b[31mred"), "$'\\033[31mred'");
        assert_eq!(shown(b"\xff"), "$'\\377'");
        assert_eq!(shown("\u{202e}txt".as_bytes()), "$'\\342\\200\\256txt'");
    }

    #[test]
    fn json_names_lose_nothing() {
        let mut object = Map::new();
        put(&mut object, "name", b"ok");
        assert_eq!(Value::from(object.clone()).to_string(), r#"{"name":"ok"}"#);
        put(&mut object, "name", b"a\xff");
        assert_eq!(object["name_bytes"], "61ff");
    }
}

//! File names are bytes. On a terminal and in messages they are shown so that
//! they can neither hide nor steer anything.

use std::borrow::Cow;
use std::fmt::Write;

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
}

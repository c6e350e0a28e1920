//! Errors in words, which name the file that they are about.

use std::fmt;
use std::io;
use std::path::Path;

/// Why an encrypted image stays closed: none of the secrets opens it. The error within an
/// [`io::Error`].
#[derive(Debug)]
pub struct Locked(pub(crate) String);

impl fmt::Display for Locked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Locked {}

/// What others say, for people: no control characters, and no more than `longest` bytes.
pub fn readable(text: &[u8], longest: usize) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(longest)]);
    let shown = |c: char| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => '?',
        c => c,
    };
    text.chars().map(shown).collect()
}

pub(crate) fn other(text: impl Into<String>) -> io::Error {
    io::Error::other(text.into())
}

/// An error about a file, which it names unless it does so already.
pub(crate) fn named(path: &Path, error: io::Error) -> io::Error {
    let text = error.to_string();
    let name = path.display().to_string();
    if name.is_empty() || text.starts_with(&name) || text.starts_with('/') {
        return error;
    }
    let kind = error.kind();
    let is_locked = error.get_ref().is_some_and(|inner| inner.is::<Locked>());
    let text = format!("{name}: {text}");
    match is_locked {
        true => io::Error::new(kind, Locked(text)),
        false => io::Error::new(kind, text),
    }
}

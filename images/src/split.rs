//! A disk in pieces that are files: NAME.001, NAME.002 … as programs that secure
//! evidence leave it, or NAME.aa, NAME.ab … as split(1) does. The name of the first
//! tells those of the others; what they are one after the other is an image of any
//! kind.

use crate::backend::Backend;
use crate::concat::{Concat, Part};
use crate::neighbours::Neighbours;
use crate::pages::invalid;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Names that are looked for behind one that is not there.
const GAP: usize = 999;

/// Whether the file at `path` is the first of several pieces, by its name, and that a
/// file with a later piece's name is beside it.
pub fn is_first_piece(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let is_there = |name: String| path.with_file_name(name).exists();
    name.is_some_and(|name| pieces_behind(name).any(is_there))
}

/// The names of the pieces that may follow, if this is that of a first one.
pub fn pieces_behind(name: &str) -> impl Iterator<Item = String> + '_ {
    let first = is_first(name).then_some(name);
    first.into_iter().flat_map(behind)
}

/// Whether this is the name of a first piece.
pub(crate) fn is_first(name: &str) -> bool {
    let parts = name.rsplit_once('.');
    parts.is_some_and(|(stem, end)| !stem.is_empty() && matches!(end, "000" | "001" | "aa" | "aaa"))
}

/// The names of the pieces behind the one with this name, as many as are looked for.
fn behind(name: &str) -> impl Iterator<Item = String> {
    std::iter::successors(next(name), |name| next(name)).take(GAP)
}

/// The next piece's name, if there can be one.
fn next(name: &str) -> Option<String> {
    let (stem, end) = name.rsplit_once('.')?;
    let (first, last) = match end.bytes().next()? {
        b'0'..=b'9' => (b'0', b'9'),
        _ => (b'a', b'z'),
    };
    let mut end = end.as_bytes().to_vec();
    for digit in end.iter_mut().rev() {
        if *digit < last {
            *digit += 1;
            return Some(format!("{stem}.{}", String::from_utf8(end).ok()?));
        }
        *digit = first;
    }
    None
}

/// The disk whose first piece is `file`; `others` opens those that follow.
pub(crate) fn open(
    file: Arc<dyn Backend>,
    write: bool,
    others: &Neighbours,
) -> io::Result<Arc<dyn Backend>> {
    let names = others.names();
    let Some(mut name) = names.into_iter().find(|name| is_first(name)) else {
        return Err(invalid(
            "has not the name of a first piece: they end with .000, .001, .aa or .aaa",
        ));
    };
    let size = file.size();
    let part = |file: Arc<dyn Backend>| Part {
        len: file.size(),
        from: Some((file, 0)),
    };
    let mut parts = vec![part(file)];
    // The length of the one before: only the last may differ from the first, and be
    // longer too (split -n).
    let mut before = size;
    while let Some(following) = next(&name) {
        let piece = match others.open_raw(&following, write) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => break,
            piece => piece?,
        };
        if before != size {
            return Err(invalid(format!(
                "is in pieces of {size} bytes, and its piece {name} has {before}"
            )));
        }
        before = piece.size();
        parts.push(part(piece));
        name = following;
    }
    match next(&name) {
        Some(missing) if behind(&name).any(|name| others.has(&name)) => Err(invalid(format!(
            "its piece {missing} is missing, and later ones are there"
        ))),
        _ => Ok(Arc::new(Concat::new(parts, write)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_each_other_as_they_are_made() {
        let pairs = [
            ("d.001", Some("d.002")),
            ("d.img.009", Some("d.img.010")),
            ("d.999", None),
            ("d.aa", Some("d.ab")),
            ("d.az", Some("d.ba")),
            ("d.zz", None),
            ("d.azz", Some("d.baa")),
        ];
        for (name, expected) in pairs {
            assert_eq!(next(name).as_deref(), expected, "{name}");
        }
    }
}

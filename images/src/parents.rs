//! The parents of Microsoft's differencing images: what a child changes, they have as
//! it was. A child names its parent by paths of Windows, and by an identity.

use crate::backend::Backend;
use crate::format::Format;
use crate::neighbours::Neighbours;
use crate::pages::invalid;
use std::io;
use std::sync::Arc;

/// The first file of those that the paths may mean that is there. `known`: whether the
/// file has the identity that the child knows.
pub(crate) fn open(
    others: &Neighbours,
    paths: &[String],
    format: Format,
    known: &dyn Fn(&dyn Backend) -> io::Result<bool>,
) -> io::Result<Arc<dyn Backend>> {
    let mut missing = None;
    for name in names(paths) {
        let check = |file: &dyn Backend| match known(file)? {
            true => Ok(()),
            false => Err(invalid(
                "is not what its child was made above, or has been changed since",
            )),
        };
        match others.open_known(&name, format, &check) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => missing = missing.or(Some(e)),
            opened => return opened,
        }
    }
    Err(missing.unwrap_or_else(|| invalid("does not name its parent")))
}

/// The paths as they are here: relative ones, and the last name of each, since the
/// directories of another host say nothing.
fn names(paths: &[String]) -> Vec<String> {
    let mut names = Vec::new();
    for path in paths {
        let path = path.replace('\\', "/");
        let of_windows = path.starts_with("//") || path.get(1..2) == Some(":");
        let last = path.rsplit('/').next().unwrap_or_default();
        let last = last.rsplit(':').next().unwrap_or_default();
        let whole = (!of_windows).then_some(&*path);
        for name in whole.into_iter().chain([last]) {
            if !matches!(name, "" | "." | "..") && !names.iter().any(|n| n == name) {
                names.push(name.to_owned());
            }
        }
    }
    names
}

/// An identity as Microsoft writes it: the first three numbers are little-endian.
pub(crate) fn guid_text(bytes: &[u8]) -> String {
    let order = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let mut text = String::new();
    for (i, at) in order.into_iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text += &format!("{:02x}", bytes[at]);
    }
    text
}

/// A text of 16-bit characters that end, at the latest, with the bytes.
pub(crate) fn utf16(bytes: &[u8], character: fn([u8; 2]) -> u16) -> String {
    let characters = bytes.chunks_exact(2).map(|c| character([c[0], c[1]]));
    let text: Vec<u16> = characters.take_while(|c| *c != 0).collect();
    String::from_utf16_lossy(&text)
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn paths_of_windows_are_looked_for_beside_the_child() {
        let paths = [".\\base.vhd", "C:\\VMs\\base.vhd", "\\\\host\\share\\b.vhd"];
        let paths = paths.map(String::from);
        assert_eq!(names(&paths), ["./base.vhd", "base.vhd", "b.vhd"]);
        assert_eq!(names(&["..\\a\\b".into()]), ["../a/b", "b"]);
        assert!(names(&["".into()]).is_empty());
    }
}

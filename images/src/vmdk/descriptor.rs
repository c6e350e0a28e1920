//! The text in a VMDK that says which files make up the disk.

use crate::pages::{invalid, unsupported};
use std::io;

/// More extents than a 64 TiB disk has in files of 2 GiB.
const MOST: usize = 32 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sparse,
    Flat,
    Zero,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub writable: bool,
    /// In sectors.
    pub sectors: u64,
    pub kind: Kind,
    pub file: String,
    /// Where the extent starts in a flat file, in sectors.
    pub start: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub extents: Vec<Extent>,
    pub parent: Option<String>,
}

impl Descriptor {
    pub fn parse(text: &[u8]) -> io::Result<Self> {
        let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        let text = String::from_utf8_lossy(&text[..end]);
        let mut found = Self::default();
        let (mut has_parent, mut hint) = (false, None);
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(extent) = extent(line)? {
                found.extents.push(extent);
                if found.extents.len() > MOST {
                    return Err(invalid("has too many extents"));
                }
            } else if let Some((key, value)) = line.split_once('=') {
                let value = value.trim().trim_matches('"');
                match key.trim() {
                    "parentCID" => has_parent = !value.eq_ignore_ascii_case("ffffffff"),
                    "parentFileNameHint" => hint = Some(value.to_owned()),
                    _ => {}
                }
            }
        }
        if has_parent {
            found.parent = Some(hint.ok_or_else(|| invalid("does not name its parent"))?);
        }
        Ok(found)
    }
}

/// `RW 4192256 SPARSE "disk-s001.vmdk"`, `RW 63 FLAT "disk-flat.vmdk" 0`.
fn extent(line: &str) -> io::Result<Option<Extent>> {
    let mut words = line.splitn(4, char::is_whitespace);
    let access = words.next().unwrap_or_default();
    if !matches!(access, "RW" | "RDONLY" | "NOACCESS") {
        return Ok(None);
    }
    let wrong = || invalid(format!("has an extent that makes no sense: {line}"));
    let sectors = words
        .next()
        .and_then(|n| n.parse().ok())
        .ok_or_else(wrong)?;
    let kind = match words.next().ok_or_else(wrong)? {
        "SPARSE" => Kind::Sparse,
        "FLAT" | "VMFS" => Kind::Flat,
        "ZERO" => Kind::Zero,
        other => {
            return Err(unsupported(format!(
                "has an extent of the type {other}; convert it with qemu-img convert"
            )))
        }
    };
    if access == "NOACCESS" {
        return Err(unsupported("has an extent that may not be accessed"));
    }
    let rest = words.next().unwrap_or_default().trim();
    let (file, start) = match (kind, rest.strip_prefix('"').and_then(|r| r.split_once('"'))) {
        (Kind::Zero, _) => (String::new(), 0),
        (_, None) => return Err(wrong()),
        (_, Some((file, start))) => {
            let start = start.trim();
            let start = if start.is_empty() {
                Some(0)
            } else {
                start.parse().ok()
            };
            (file.to_owned(), start.ok_or_else(wrong)?)
        }
    };
    Ok(Some(Extent {
        writable: access == "RW",
        sectors,
        kind,
        file,
        start,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_and_a_parent_are_read() {
        let text = b"# Disk DescriptorFile\nversion=1\nparentCID=1234abcd\n\
            parentFileNameHint=\"base.vmdk\"\n# Extent description\n\
            RW 4192256 SPARSE \"a b-s001.vmdk\"\nRDONLY 63 FLAT \"f.vmdk\" 7\nRW 5 ZERO\n\0junk";
        let found = Descriptor::parse(text).unwrap();
        assert_eq!(found.parent.as_deref(), Some("base.vmdk"));
        let extent = |writable, sectors, kind, file: &str, start| Extent {
            writable,
            sectors,
            kind,
            file: file.into(),
            start,
        };
        let expected = [
            extent(true, 4192256, Kind::Sparse, "a b-s001.vmdk", 0),
            extent(false, 63, Kind::Flat, "f.vmdk", 7),
            extent(true, 5, Kind::Zero, "", 0),
        ];
        assert_eq!(found.extents, expected);
    }

    #[test]
    fn what_makes_no_sense_is_an_error() {
        for line in [
            "RW",
            "RW x SPARSE \"a\"",
            "RW 5 SPARSE a",
            "RW 5 FLAT \"a\" b",
            "RW 5 SESPARSE \"a\"",
        ] {
            assert!(Descriptor::parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}

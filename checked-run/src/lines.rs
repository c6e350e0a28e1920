//! Which line of the source a place in the code comes of: a list behind the read-only data,
//! where `tane-checked-build` has put it. Nothing relies on it, and whoever made the module
//! may have written anything there.
//!
//! ```text
//! entries: how far behind the one before in the code, its file, its line, as LEB128
//! names of the files, each with a 0 behind it
//! "TANELINE", bytes of the entries, bytes of the names: 4 each
//! ```

/// What the list ends with.
const MAGIC: &[u8; 8] = b"TANELINE";
const TRAILER: usize = 16;

/// A module's list.
#[derive(Debug)]
pub struct Lines {
    entries: Vec<u8>,
    files: Vec<String>,
}

impl Lines {
    /// None if there is none, or what is there is none.
    pub fn of(read_only: &[u8]) -> Option<Lines> {
        let (rest, trailer) = read_only.split_at_checked(read_only.len().checked_sub(TRAILER)?)?;
        let (magic, sizes) = trailer.split_at(8);
        let size = |at: usize| {
            let bytes = sizes[at..at + 4].try_into().ok()?;
            usize::try_from(u32::from_le_bytes(bytes)).ok()
        };
        let (entries, names) = (size(0)?, size(4)?);
        if magic != MAGIC {
            return None;
        }
        let (rest, names) = rest.split_at_checked(rest.len().checked_sub(names)?)?;
        let (_, entries) = rest.split_at_checked(rest.len().checked_sub(entries)?)?;
        let names = names.split(|byte| *byte == 0);
        Some(Lines {
            entries: entries.to_vec(),
            files: names.map(|n| String::from_utf8_lossy(n).into()).collect(),
        })
    }

    /// The file and line of the last entry that is not behind this place.
    pub fn find(&self, place: u32) -> Option<(String, u32)> {
        let mut rest = self.entries.as_slice();
        let (mut at, mut found) = (0_u32, None);
        while !rest.is_empty() {
            let (ahead, file, line) = (leb(&mut rest)?, leb(&mut rest)?, leb(&mut rest)?);
            at = at.checked_add(ahead)?;
            if at > place {
                break;
            }
            found = Some((file, line));
        }
        let (file, line) = found.filter(|(_, line)| *line > 0)?;
        let name = self.files.get(usize::try_from(file).ok()?)?;
        Some((name.clone(), line))
    }
}

fn leb(bytes: &mut &[u8]) -> Option<u32> {
    let (mut value, mut shift) = (0_u32, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lines;

    #[test]
    fn whatever_stands_there_is_a_list_or_none() {
        let entries = [4, 0, 9, 0x80, 1, 1, 12, 8, 0, 0];
        let list = [&entries[..], b"a.c\0b.c\0", b"TANELINE"].concat();
        let list = [&list[..], &[10, 0, 0, 0], &[8, 0, 0, 0]].concat();
        let lines = Lines::of(&list).expect("a list");
        assert_eq!(lines.find(3), None);
        assert_eq!(lines.find(4), Some(("a.c".into(), 9)));
        assert_eq!(lines.find(131), Some(("a.c".into(), 9)));
        assert_eq!(lines.find(132), Some(("b.c".into(), 12)));
        assert_eq!(lines.find(140), None, "code of no line");
        for cut in 1..list.len() {
            assert!(Lines::of(&list[cut..]).is_none(), "{cut}");
        }
        for at in 0..list.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut wrong = list.clone();
                wrong[at] = value;
                Lines::of(&wrong).map(|lines| lines.find(u32::MAX));
            }
        }
    }
}

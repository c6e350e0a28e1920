//! Which line of the source a place in the code comes of: the list that
//! `checked-run/src/lines.rs` describes and reads, made of what the rewriter has put into
//! objects.

use std::collections::BTreeMap;

/// Of a whole module.
#[derive(Default)]
pub struct Lines {
    /// By place: file and line.
    at: BTreeMap<u64, (u32, u32)>,
    files: Vec<String>,
}

impl Lines {
    /// Takes in an object's entries, each a place in the module's code and what the object
    /// says of it, and its files.
    pub fn add(&mut self, entries: impl Iterator<Item = (u64, [u32; 2])>, files: &[u8]) {
        let names: Vec<&[u8]> = files.split(|byte| *byte == 0).collect();
        let mut known = BTreeMap::new();
        for (at, [file, line]) in entries {
            let number = *known.entry(file).or_insert_with(|| {
                let name = names.get(file as usize).copied().unwrap_or_default();
                self.number(&String::from_utf8_lossy(name))
            });
            self.at.insert(at, (number, line));
        }
    }

    fn number(&mut self, name: &str) -> u32 {
        let found = self.files.iter().position(|file| file == name);
        found.unwrap_or_else(|| {
            self.files.push(name.into());
            self.files.len() - 1
        }) as u32
    }

    /// As it stands behind the read-only data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (mut entries, mut before, mut said) = (Vec::new(), 0, None);
        for (at, what) in &self.at {
            if said == Some(what) {
                continue;
            }
            leb(&mut entries, at - before);
            leb(&mut entries, what.0.into());
            leb(&mut entries, what.1.into());
            (before, said) = (*at, Some(what));
        }
        let names: Vec<u8> = self
            .files
            .iter()
            .flat_map(|f| [f.as_bytes(), b"\0"].concat())
            .collect();
        let sizes = [entries.len() as u32, names.len() as u32].map(u32::to_le_bytes);
        [&entries[..], &names, b"TANELINE", &sizes.concat()].concat()
    }
}

fn leb(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

//! The contents of the workloads: the same on every machine.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::Hasher;
use std::io;
use std::path::Path;

/// What a tree holds, to compare what came out with what went in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    files: u64,
    bytes: u64,
    contents: u64,
}

impl Tally {
    pub fn add(&mut self, name: &str, data: &[u8]) {
        let mut hasher = DefaultHasher::new();
        hasher.write(name.as_bytes());
        hasher.write(data);
        self.files += 1;
        self.bytes += data.len() as u64;
        self.contents = self.contents.wrapping_add(hasher.finish());
    }

    /// An error unless a directory holds this.
    pub fn check(&self, dir: &Path) -> Result<(), String> {
        let found = Self::of(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        match found == *self {
            true => Ok(()),
            false => Err("what came out is not what went in".into()),
        }
    }

    /// Of all regular files under a directory.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let mut tally = Self::default();
        let mut left = vec![dir.to_path_buf()];
        while let Some(dir) = left.pop() {
            for entry in fs::read_dir(dir)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    left.push(entry.path());
                } else {
                    let name = entry.file_name();
                    tally.add(&name.to_string_lossy(), &fs::read(entry.path())?);
                }
            }
        }
        Ok(tally)
    }
}

/// Bytes without holes that do not compress, by xorshift64.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data.extend_from_slice(&state.to_le_bytes());
    }
    data.truncate(len);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_sees_every_change() {
        let tally = |name: &str, data: &[u8]| {
            let mut tally = Tally::default();
            tally.add(name, data);
            tally
        };
        let data = bytes(1, 100);
        assert_eq!(data.len(), 100);
        assert_eq!(tally("a", &data), tally("a", &bytes(1, 100)));
        assert_ne!(tally("a", &data), tally("b", &data));
        assert_ne!(tally("a", &data), tally("a", &bytes(2, 100)));
    }
}

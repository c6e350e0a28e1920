// SPDX-License-Identifier: GPL-2.0-only
//! A fingerprint that tells whether inputs changed. Not for security.

use std::path::Path;

use crate::{layout, Result};

/// FNV-1a, 128 bits.
#[derive(Clone)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 ^= u128::from(byte);
            self.0 = self
                .0
                .wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }

    /// Add one field; its length goes in too, so that fields cannot run together.
    pub fn field(&mut self, field: impl AsRef<[u8]>) {
        let field = field.as_ref();
        self.bytes(&(field.len() as u64).to_le_bytes());
        self.bytes(field);
    }

    /// Add the names and contents of all files below a directory.
    pub fn tree(&mut self, dir: &Path) -> Result<()> {
        for path in layout::files_below(dir)? {
            let name = path.strip_prefix(dir).unwrap_or(&path);
            self.field(name.as_os_str().as_encoded_bytes());
            self.field(std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?);
        }
        Ok(())
    }

    /// In hexadecimal.
    pub fn text(&self) -> String {
        format!("{:032x}", self.0)
    }
}

impl Default for Fingerprint {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(fields: &[&str]) -> String {
        let mut print = Fingerprint::new();
        fields.iter().for_each(|field| print.field(field));
        print.text()
    }

    #[test]
    fn fields_do_not_run_together() {
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["a"]), of(&["a", ""]));
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
    }
}

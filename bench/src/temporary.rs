//! Files and directories that are gone once dropped.

use std::fs;
use std::path::PathBuf;

pub struct Temporary(pub PathBuf);

impl Temporary {
    /// A new directory.
    pub fn dir(path: PathBuf) -> Result<Self, String> {
        fs::create_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = match self.0.is_dir() {
            true => fs::remove_dir_all(&self.0),
            false => fs::remove_file(&self.0),
        };
    }
}

//! The images with which other projects test their tools: scripts/foreign-images
//! gets them. Damaged as their authors thought of it, or odd.

use super::sparse::Sparse;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Each is met twice: to be read, and to be written.
pub const TIMES: u64 = 2;

pub struct Foreign {
    pub name: String,
    path: PathBuf,
}

impl Foreign {
    pub fn store(&self, to: &File) {
        let image = Sparse::load(&self.path).expect("the image");
        image.store(to).expect("memory");
    }
}

/// Where those of a package are.
pub fn dir(package: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/foreign");
    root.join(package)
}

/// Those there are, in the order of their names.
pub fn load(dir: &Path) -> Vec<Foreign> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut images: Vec<_> = entries
        .map(|entry| Foreign {
            name: entry.file_name().to_string_lossy().into_owned(),
            path: entry.path(),
        })
        .collect();
    images.sort_by(|a, b| a.name.cmp(&b.name));
    images
}

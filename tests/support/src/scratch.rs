//! A directory of a test's own.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// It goes away with this, and all that is in it.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Where temporary files are. `name` says whose it is.
    pub fn new(name: &str) -> Scratch {
        Scratch::within(&std::env::temp_dir(), name)
    }

    /// In a directory that is there, such as `CARGO_TARGET_TMPDIR`, which is on a disk.
    pub fn within(dir: &Path, name: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("tane-{name}-{}-{number}", std::process::id());
        let path = dir.join(name);
        std::fs::create_dir(&path).expect("a directory");
        Scratch(path)
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

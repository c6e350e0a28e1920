//! Where things are.

use std::path::{Path, PathBuf};

pub struct Paths {
    /// The checkout.
    pub root: PathBuf,
    /// The `tane` command that was built beside this one.
    pub tane: PathBuf,
    /// Where extracted files go, a directory of this process.
    pub scratch: PathBuf,
}

impl Paths {
    pub fn find(scratch: &Path) -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = root.parent().unwrap_or(root).to_path_buf();
        let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
        let scratch = scratch.join(format!("tane-bench-{}", std::process::id()));
        let paths = Self {
            tane: own.with_file_name("tane"),
            root,
            scratch,
        };
        for dir in [&paths.work(), &paths.scratch] {
            std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        Ok(paths)
    }

    /// Where workloads and results are kept.
    pub fn work(&self) -> PathBuf {
        self.root.join("build/bench")
    }

    /// Results; those of a few figures do not replace those of all.
    pub fn json(&self, all: bool) -> PathBuf {
        let name = if all { "bench.json" } else { "bench-only.json" };
        self.work().join(name)
    }

    /// The kernel image of a configuration.
    pub fn image(&self, config: &str) -> PathBuf {
        self.root.join(format!("build/images/tane-{config}.elf"))
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

//! Where things are: in a source tree, or below the prefix they were installed to.

use crate::options::Options;
use std::path::{Path, PathBuf};

pub struct Paths {
    /// The source tree this was built from; it may be gone.
    pub root: PathBuf,
    /// The `tane` command beside this one.
    pub tane: PathBuf,
    /// A directory of this process in memory, for files to read and write.
    pub scratch: PathBuf,
    /// The same on a disk.
    pub disk: PathBuf,
    /// Where workloads and results are kept.
    pub output: PathBuf,
}

impl Paths {
    pub fn find(options: &Options) -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = root.parent().unwrap_or(root).to_path_buf();
        let own = std::env::current_exe().map_err(|e| format!("own path: {e}"))?;
        let name = format!("tane-bench-{}", std::process::id());
        let output = options.output.clone().unwrap_or_else(|| output(&root));
        let disk = options.disk.as_ref().unwrap_or(&output);
        let paths = Self {
            tane: own.with_file_name("tane"),
            scratch: options.scratch.join(&name),
            disk: disk.join(&name),
            output,
            root,
        };
        for dir in [&paths.output, &paths.scratch, &paths.disk] {
            std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        Ok(paths)
    }

    /// Where workloads and results are kept.
    pub fn work(&self) -> PathBuf {
        self.output.clone()
    }

    /// Results; those of a few figures do not replace those of all.
    pub fn json(&self, all: bool) -> PathBuf {
        let name = if all { "bench.json" } else { "bench-only.json" };
        self.output.join(name)
    }

    /// The kernel image of a configuration: beside the one that `TANE_IMAGE`
    /// names, which itself counts as `default`; else where the library looks.
    pub fn image(&self, config: &str) -> Result<PathBuf, String> {
        let name = format!("tane-{config}.elf");
        let mut places = Vec::new();
        if let Some(path) = std::env::var_os("TANE_IMAGE").filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            if config == "default" {
                return Ok(path);
            }
            places.extend(path.parent().map(Path::to_path_buf));
        }
        let own = std::env::current_exe().and_then(|own| own.canonicalize());
        if let Some(dir) = own.ok().as_deref().and_then(Path::parent) {
            places.extend([dir.to_owned(), dir.join("tane")]);
            if let Some(prefix) = dir.parent() {
                places.extend([prefix.join("lib/tane"), prefix.join("share/tane")]);
            }
        }
        places.push(self.root.join("build/images"));
        let found = places.iter().map(|place| place.join(&name));
        found.into_iter().find(|path| path.is_file()).ok_or(format!(
            "there is no {name}; build it (cargo run -p xtask -- kernel --config {config}) \
             or set TANE_IMAGE to one"
        ))
    }
}

/// Where results go if nobody says.
fn output(root: &Path) -> PathBuf {
    if root.join("Cargo.toml").is_file() {
        root.join("build/bench")
    } else {
        PathBuf::from("tane-bench")
    }
}

impl Drop for Paths {
    fn drop(&mut self) {
        for dir in [&self.scratch, &self.disk] {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
}

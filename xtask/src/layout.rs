// SPDX-License-Identifier: GPL-2.0-only
//! Where things are in a checkout.

use std::path::{Path, PathBuf};

use crate::Result;

/// The directories the chores work in.
pub struct Layout {
    pub root: PathBuf,
    /// An experiment has patches and a tree of its own, which no other image sees.
    experiment: Option<String>,
}

impl Layout {
    /// The checkout that cargo runs us from.
    pub fn find() -> Self {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here.parent().unwrap_or(Path::new(".")).to_path_buf();
        let experiment = None;
        Self { root, experiment }
    }

    /// The same for images of that experiment.
    pub fn with_experiment(&self, name: &str) -> Self {
        Self {
            root: self.root.clone(),
            experiment: Some(name.to_string()),
        }
    }

    pub fn overlay(&self) -> PathBuf {
        self.root.join("kernel/arch/tane")
    }

    pub fn patches(&self) -> PathBuf {
        match &self.experiment {
            None => self.root.join("kernel/patches"),
            Some(name) => self.experiments().join(name),
        }
    }

    pub fn experiments(&self) -> PathBuf {
        self.root.join("kernel/experiments")
    }

    pub fn configs(&self) -> PathBuf {
        self.root.join("kernel/configs")
    }

    /// Everything generated, ignored by git. What is in an experiment's has the same
    /// names as in the other, so that what was compiled there is not compiled again.
    pub fn build(&self) -> PathBuf {
        let build = self.root.join("build");
        match &self.experiment {
            None => build,
            Some(name) => build.join("experiments").join(name),
        }
    }

    pub fn images(&self) -> PathBuf {
        self.root.join("build/images")
    }

    pub fn logs(&self) -> PathBuf {
        self.build().join("logs")
    }
}

/// All regular files below `dir`, sorted; a missing directory has none.
pub fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_path_buf()];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", dir.display()))?;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Read a text file, naming it in the error.
pub fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Replace a file in one step, so that an interrupted run leaves the old one.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let temporary = path.with_extension("new");
    std::fs::write(&temporary, text)
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(|e| format!("{}: {e}", path.display()))
}

pub fn create_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))
}

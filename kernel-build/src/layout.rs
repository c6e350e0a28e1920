// SPDX-License-Identifier: GPL-2.0-only
//! Where things are.

use std::path::{Path, PathBuf};

use crate::fresh::Fresh;
use crate::Result;

/// What is ours, and where is built.
#[derive(Clone, Debug)]
pub struct Layout {
    /// A checkout's kernel/.
    ours: PathBuf,
    build: PathBuf,
    /// The archive or tree of Linux that somebody named.
    origin: Option<PathBuf>,
    /// An experiment has patches and a tree of its own, which no other image sees.
    experiment: Option<String>,
}

impl Layout {
    /// `ours` has what a checkout's kernel/ has; everything that is generated goes below
    /// `build`.
    pub fn new(ours: impl Into<PathBuf>, build: impl Into<PathBuf>) -> Self {
        Self {
            ours: ours.into(),
            build: build.into(),
            origin: None,
            experiment: None,
        }
    }

    /// The same from this archive or tree of Linux.
    pub fn with_origin(self, origin: Option<PathBuf>) -> Self {
        Self { origin, ..self }
    }

    /// The same for images of that experiment.
    pub fn with_experiment(&self, name: &str) -> Self {
        Self {
            experiment: Some(name.to_string()),
            ..self.clone()
        }
    }

    /// The port.
    pub fn overlay(&self) -> PathBuf {
        self.ours.join("arch/tane")
    }

    /// What is changed in Linux's own files.
    pub fn patches(&self) -> PathBuf {
        match &self.experiment {
            None => self.ours.join("patches"),
            Some(name) => self.experiments().join(name),
        }
    }

    /// A directory of patches for each.
    pub fn experiments(&self) -> PathBuf {
        self.ours.join("experiments")
    }

    /// Fragments, and which images are made of which.
    pub fn configs(&self) -> PathBuf {
        self.ours.join("configs")
    }

    /// Everything generated. What is in an experiment's has the same names as in the
    /// other, so that what was compiled there is not compiled again.
    pub fn build(&self) -> PathBuf {
        match &self.experiment {
            None => self.build.clone(),
            Some(name) => self.build.join("experiments").join(name),
        }
    }

    /// Where a checkout's images go.
    pub fn images(&self) -> PathBuf {
        self.build.join("images")
    }

    /// What programs said.
    pub fn logs(&self) -> PathBuf {
        self.build().join("logs")
    }

    /// The archive or tree that somebody named.
    pub fn origin(&self) -> Option<&Path> {
        self.origin.as_deref()
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
    Fresh::of(path)?.with(text)?.put()
}

/// With those above it.
pub fn create_dir(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|e| format!("{}: {e}", path.display()))
}

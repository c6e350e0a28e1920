// SPDX-License-Identifier: GPL-2.0-only
//! Where things are in a checkout.

use std::path::{Path, PathBuf};

pub use tane_kernel_build::layout::{files_below, read};

/// The directories the chores work in.
pub struct Layout {
    pub root: PathBuf,
    /// What kernel images are made of, and where.
    pub kernel: tane_kernel_build::Layout,
}

impl Layout {
    /// The checkout that cargo runs us from.
    pub fn find() -> Self {
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here.parent().unwrap_or(Path::new(".")).to_path_buf();
        let kernel = tane_kernel_build::Layout::new(root.join("kernel"), root.join("build"));
        Self { root, kernel }
    }
}

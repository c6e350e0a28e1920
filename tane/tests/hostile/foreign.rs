//! The images with which other projects test their tools: scripts/foreign-images
//! gets them. Damaged as their authors thought of it, or odd.

use super::kinds::Kind;
use std::fs::File;
use std::path::{Path, PathBuf};
use tane::{Disk, Kernel, MountOptions, VolumeOptions};
use tane_hostile::sparse::Sparse;

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

/// What an image is taken for.
#[derive(Clone, Copy)]
pub enum As<'a> {
    Kind(&'a Kind),
    /// Whatever it seems to be.
    Foreign(&'a Foreign),
}

impl As<'_> {
    pub fn name(&self) -> &str {
        match self {
            Self::Kind(kind) => kind.name,
            Self::Foreign(foreign) => &foreign.name,
        }
    }

    /// How it is mounted; of what is not known before, all volumes are looked for.
    pub fn mount_options(&self, kernel: &Kernel, disk: &Disk) -> tane::Result<MountOptions> {
        if let Self::Kind(kind) = self {
            return Ok(kind.mount_options());
        }
        let found = disk.probe();
        // Members of sets and groups are mostly alone.
        let volumes = kernel.volumes(&[disk], &VolumeOptions::new());
        drop(volumes);
        let found = found?.map(|found| found.fstype);
        let mut options = MountOptions::new();
        // Not to panic on errors, which a superblock may ask for.
        if found.is_some_and(|fstype| fstype.starts_with("ext")) {
            options.options("errors=continue");
        }
        Ok(options)
    }
}

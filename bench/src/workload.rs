//! ext4 images to read from, made once by mke2fs.

use crate::paths::Paths;
use crate::tool;
use crate::tree::{bytes, Tally};
use std::fs;
use std::path::{Path, PathBuf};

/// To be raised when contents change: images of another version are not used.
const VERSION: u32 = 1;

/// The directory in the image that holds everything.
pub const TREE: &str = "tree";
/// The only file of the single and large workloads.
pub const FILE: &str = "file";

#[derive(Clone, Copy)]
pub enum Kind {
    /// One file of 4 KiB.
    Single,
    /// 10,000 files of at most 4 KiB in 100 directories.
    Many,
    /// One file of 256 MiB.
    Large,
}

pub struct Workload {
    pub image: PathBuf,
    pub tally: Tally,
}

impl Workload {
    /// The image, made now if it is not there.
    pub fn get(paths: &Paths, kind: Kind) -> Result<Self, String> {
        let (name, size) = match kind {
            Kind::Single => ("single", "16M"),
            Kind::Many => ("many", "96M"),
            Kind::Large => ("large", "320M"),
        };
        let image = paths.work().join(format!("{name}-{VERSION}.ext4"));
        let mut tally = Tally::default();
        each(kind, |path, data| {
            tally.add(path.rsplit('/').next().unwrap_or(path), data);
            Ok(())
        })?;
        if !image.exists() {
            make(paths, kind, &image, size)?;
        }
        Ok(Self { image, tally })
    }
}

/// The contents of the single file.
pub fn single() -> Vec<u8> {
    bytes(0, 4096)
}

/// All files of a workload: path in the tree, contents.
fn each(
    kind: Kind,
    mut visit: impl FnMut(&str, &[u8]) -> Result<(), String>,
) -> Result<(), String> {
    match kind {
        Kind::Single => visit(FILE, &single()),
        Kind::Large => visit(FILE, &bytes(0, 256 << 20)),
        Kind::Many => (0..10_000).try_for_each(|i| {
            let path = format!("{:02}/{i:05}", i / 100);
            visit(&path, &bytes(i, (i * 37 % 4096 + 1) as usize))
        }),
    }
}

fn make(paths: &Paths, kind: Kind, image: &Path, size: &str) -> Result<(), String> {
    let mke2fs = tool::need("mke2fs", "e2fsprogs")?;
    let source = paths.scratch.join("source");
    let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    each(kind, |path, data| {
        let path = source.join(TREE).join(path);
        let dir = path.parent().unwrap_or(&source);
        fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
        fs::write(&path, data).map_err(|e| failed(&path, e))
    })?;
    // Under its name only when it is whole.
    let part = image.with_extension("part");
    let _ = fs::remove_file(&part);
    let mut command = tool::command(&mke2fs, ["-q", "-F", "-t", "ext4", "-d"]);
    tool::output(command.arg(&source).arg(&part).arg(size))?;
    fs::remove_dir_all(&source).map_err(|e| failed(&source, e))?;
    fs::rename(&part, image).map_err(|e| failed(image, e))
}

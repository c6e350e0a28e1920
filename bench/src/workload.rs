//! Trees, and images of them to read from, made once: those of ext4 by mke2fs, others
//! by `tane make-image`.

use crate::paths::Paths;
use crate::temporary::Temporary;
use crate::tool;
use crate::tree::{bytes, Tally};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// 2 GiB in a file system of 20 GiB: see [`BIG`].
    Big,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Many => "many",
            Self::Large => "large",
            Self::Big => "big",
        }
    }

    /// Of the image, as mke2fs takes it.
    pub fn size(self, fs: &str) -> &'static str {
        match (self, fs) {
            (Self::Big, _) => BIG_SIZE,
            // The least that mkfs.xfs makes is 300 MiB.
            (_, "xfs" | "btrfs") => "640M",
            (Self::Single, _) => "16M",
            (Self::Many, _) => "96M",
            (Self::Large, _) => "320M",
        }
    }

    pub fn tally(self) -> Result<Tally, String> {
        let mut tally = Tally::default();
        each(self, |path, data| {
            tally.add(path.rsplit('/').next().unwrap_or(path), data);
            Ok(())
        })?;
        Ok(tally)
    }
}

/// A new directory in memory that a workload's tree is in.
pub fn source(paths: &Paths, kind: Kind) -> Result<Temporary, String> {
    source_at(paths.scratch.join("source"), kind)
}

/// The same, there.
pub fn source_at(at: PathBuf, kind: Kind) -> Result<Temporary, String> {
    let source = Temporary::dir(at)?;
    let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    each(kind, |path, data| {
        let path = source.0.join(TREE).join(path);
        let dir = path.parent().unwrap_or(&source.0);
        fs::create_dir_all(dir).map_err(|e| failed(dir, e))?;
        fs::write(&path, data).map_err(|e| failed(&path, e))
    })?;
    Ok(source)
}

/// What the big workload is, for the text of its rows.
pub const BIG: &str = "2 GiB (4 files of 400 MiB, 288 of 1 MiB, 10,000 of up to 32 KiB) \
in 20 GiB of";
pub const BIG_SIZE: &str = "20G";

pub struct Workload {
    pub image: PathBuf,
    pub tally: Tally,
}

impl Workload {
    /// The image with an ext4.
    pub fn get(paths: &Paths, kind: Kind) -> Result<Self, String> {
        Self::with(paths, kind, "ext4")
    }

    /// The image with this file system, made now if it is not there.
    pub fn with(paths: &Paths, kind: Kind, fs: &str) -> Result<Self, String> {
        let image = format!("{}-{VERSION}.{fs}", kind.name());
        let image = paths.work().join(image);
        if !image.exists() {
            make(paths, kind, fs, &image)?;
        }
        let tally = kind.tally()?;
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
        Kind::Big => {
            (0..4).try_for_each(|i| visit(&format!("large/{i}"), &bytes(i, 400 << 20)))?;
            (0..288).try_for_each(|i| visit(&format!("middle/{i:03}"), &bytes(i, 1 << 20)))?;
            (0..10_000).try_for_each(|i| {
                let path = format!("small/{:02}/{i:05}", i / 100);
                visit(&path, &bytes(i, (i * 997 % (32 << 10) + 1) as usize))
            })
        }
        Kind::Many => (0..10_000).try_for_each(|i| {
            let path = format!("{:02}/{i:05}", i / 100);
            visit(&path, &bytes(i, (i * 37 % 4096 + 1) as usize))
        }),
    }
}

fn make(paths: &Paths, kind: Kind, fs: &str, image: &Path) -> Result<(), String> {
    let source = source(paths, kind)?;
    // Under its name only when it is whole.
    let part = image.with_extension("part");
    let _ = fs::remove_file(&part);
    let mut command = match fs {
        "ext4" => mke2fs(&source.0, &part, kind.size(fs))?,
        fs => make_image(paths, fs, &source.0, &part, kind.size(fs)),
    };
    tool::output(&mut command)?;
    fs::rename(&part, image).map_err(|e| format!("{}: {e}", image.display()))
}

/// An ext4 of a directory's files, by e2fsprogs.
pub fn mke2fs(source: &Path, image: &Path, size: &str) -> Result<Command, String> {
    let mke2fs = tool::need("mke2fs", "e2fsprogs")?;
    let mut command = tool::command(&mke2fs, ["-q", "-F", "-t", "ext4", "-d"]);
    command.arg(source).arg(image).arg(size);
    Ok(command)
}

/// The same by us.
pub fn make_image(paths: &Paths, fs: &str, source: &Path, image: &Path, size: &str) -> Command {
    let mut command = tool::command(&paths.tane, ["make-image", "--fs", fs, "--size", size]);
    command.arg(source).arg(image);
    command
}

//! The directory of a hunt, and the sound file system that it begins with.

use crate::failure::{Failure, Result};
use crate::session::Global;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tane_hostile::bench::How;
use tane_hostile::hunt::Input;
use tane_hostile::reproducer::Reproducer;
use tane_hostile::sparse::Sparse;

/// Each 16 bytes of files in what is made here begin so: damage goes elsewhere.
pub const MAGIC: &[u8] = b"content\n";
/// With room for what is written; others are as large as they need to be.
const SIZES: [(&str, &str); 7] = [
    ("ext2", "16M"),
    ("ext3", "16M"),
    ("ext4", "16M"),
    ("vfat", "16M"),
    ("xfs", "300M"),
    ("btrfs", "128M"),
    ("f2fs", "64M"),
];
/// An image that is larger would take as much memory as it holds.
const LARGEST: u64 = 64 << 30;

/// The directory.
pub struct Corpus(PathBuf);

impl Corpus {
    /// It is made if it is not there.
    pub fn new(dir: PathBuf) -> Result<Corpus> {
        for part in ["inputs", "found"] {
            let part = dir.join(part);
            fs::create_dir_all(&part).map_err(|e| Failure::of_host(&part, &e))?;
        }
        Ok(Corpus(dir))
    }

    pub fn dir(&self) -> &Path {
        &self.0
    }

    /// What is sound: a file of the user's, or one that is made here, once.
    pub fn base(&self, named: Option<&Path>, fstype: &str, global: &Global) -> Result<Sparse> {
        let made = self.0.join("base.img");
        let image = match named {
            Some(image) => image,
            None => {
                if !made.exists() {
                    make(&made, fstype, global)?;
                }
                &made
            }
        };
        let fail = |e: io::Error| Failure::of_host(image, &e);
        let file = File::open(image).map_err(fail)?;
        let found = file.metadata().map_err(fail)?;
        if !found.is_file() {
            return Err(Failure::image(format!("{}: is no file", image.display())));
        }
        if found.len() == 0 || found.len() > LARGEST {
            let text = format!("{}: is empty, or larger than 64 GiB", image.display());
            return Err(Failure::image(text));
        }
        Sparse::load(image).map_err(fail)
    }

    /// What an earlier hunt has kept of the same image.
    pub fn inputs(&self, base: &Sparse) -> Result<Vec<Input>> {
        let dir = self.0.join("inputs");
        let fail = |e: io::Error| Failure::of_host(&dir, &e);
        let entries = fs::read_dir(&dir).map_err(fail)?;
        let entries: io::Result<Vec<_>> = entries.collect();
        let mut paths: Vec<_> = entries.map_err(fail)?.iter().map(|e| e.path()).collect();
        // The same order each time.
        paths.sort();
        let read = paths.iter().filter_map(|path| Reproducer::load(path).ok());
        Ok(read.filter_map(|read| read.like(base)).collect())
    }

    /// For the next hunt.
    pub fn keep(&self, input: &Input, how: &How, number: u64, base: &Sparse) -> Result<()> {
        let dir = self.0.join("inputs");
        // Hunts may be several.
        let path = (0..)
            .map(|n| dir.join(format!("{number:08}-{n}")))
            .find(|path| !path.exists())
            .unwrap_or(dir);
        let kept = Reproducer::of(how).keep(&path, input, base);
        kept.map_err(|e| Failure::of_host(&path, &e))
    }

    /// Saves what was found; its file.
    pub fn find(
        &self,
        fault: &str,
        reproducer: &Reproducer,
        image: &Sparse,
        words: &str,
    ) -> Result<PathBuf> {
        let dir = self.0.join("found");
        let saved = reproducer.save(&dir, &name_of(fault), image, words);
        saved.map_err(|e| Failure::of_host(&dir, &e))
    }
}

/// A file's name for what is wrong: the same for the same thing.
fn name_of(fault: &str) -> String {
    const MOST: usize = 80;
    let letter = |c: char| match c.is_ascii_alphanumeric() || c == '_' {
        true => c.to_ascii_lowercase(),
        false => '-',
    };
    let text: String = fault.chars().map(letter).collect();
    let words: Vec<_> = text.split('-').filter(|word| !word.is_empty()).collect();
    let mut name = words.join("-");
    name.truncate(MOST);
    name
}

/// By this command, in its jail, from some files of each kind.
fn make(image: &Path, fstype: &str, global: &Global) -> Result<()> {
    let fail = |e: io::Error| Failure::of_host(image, &e);
    let tree = image.with_file_name("base.tree");
    populate(&tree).map_err(fail)?;
    let program = std::env::current_exe().map_err(fail)?;
    let mut command = Command::new(program);
    command.args(["make-image", "-q", "--fs", fstype, "--epoch", "1700000000"]);
    if let Some((_, size)) = SIZES.iter().find(|(known, _)| *known == fstype) {
        command.args(["--size", size]);
    }
    if global.no_jail {
        command.arg("--no-jail");
    }
    let output = command
        .arg(&tree)
        .arg(image)
        .stdin(Stdio::null())
        .output()
        .map_err(fail)?;
    let _ = fs::remove_dir_all(&tree);
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = crate::names::plain(said.trim().as_bytes());
    let text = format!("no {fstype} to begin with could be made: {said}");
    Err(Failure::image(text).remedy("name a sound image of it behind the type"))
}

fn populate(tree: &Path) -> io::Result<()> {
    let content = |len: usize| -> Vec<u8> {
        let line = |n: u64| [MAGIC, &n.to_le_bytes()[..]].concat();
        let lines = (0..len.div_ceil(16) as u64).flat_map(line);
        lines.take(len).collect()
    };
    fs::create_dir_all(tree.join("dir/sub/deep"))?;
    for n in 0..60 {
        fs::write(tree.join(format!("dir/a name of some length {n}")), [])?;
    }
    for n in 0..8 {
        fs::write(tree.join(format!("dir/sub/{n}")), content(n * 2500))?;
    }
    let holes = File::create(tree.join("holes"))?;
    for n in 0..50 {
        std::os::unix::fs::FileExt::write_all_at(&holes, &content(1024), n * 8192)?;
    }
    fs::write(tree.join("file"), content(100_000))?;
    std::os::unix::fs::symlink("dir/sub", tree.join("short"))?;
    std::os::unix::fs::symlink("x/".repeat(120), tree.join("long"))?;
    fs::hard_link(tree.join("file"), tree.join("dir/hard"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_a_name_that_is_a_file_s() {
        assert_eq!(
            name_of("kernel BUG at fs/reiserfs/stree.c:105!, in f"),
            "kernel-bug-at-fs-reiserfs-stree-c-105-in-f"
        );
        assert!(name_of(&"x/".repeat(500)).len() <= 80);
    }
}

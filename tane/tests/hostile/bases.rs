//! Sound images, made once and kept in files: the same seed then damages the
//! same bytes, also in the next process.

use super::kinds::{Kind, Make, UUID};
use super::{boot, tree};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use tane::{DiskOptions, Kernel};
use tane_hostile::sparse::{self, Sparse};
use tane_hostile::Base;
use tane_test_support::tool;

pub fn path(dir: &Path, kind: usize, state: &str) -> PathBuf {
    dir.join(format!("base-{kind}-{state}.img"))
}

/// The images of a file system and the kinds they are of; those it can have
/// with a tool that is missing are left out, and none means a skipped test.
pub fn load<'a>(dir: &Path, kinds: &'a [Kind]) -> Vec<(&'a Kind, Base)> {
    let mut bases = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        for state in ["dirty", "clean"] {
            let path = path(dir, i, state);
            if path.is_file() {
                let image = Sparse::load(&path).expect("the base");
                bases.push((kind, Base::new(image, tree::MAGIC)));
            }
        }
    }
    bases
}

/// Make what [`load`] loads. False if a tool is missing.
pub fn make(dir: &Path, kinds: &[Kind]) -> bool {
    fs::create_dir_all(dir).expect("a directory");
    for (i, kind) in kinds.iter().enumerate() {
        let (clean, dirty) = (path(dir, i, "clean"), path(dir, i, "dirty"));
        if clean.is_file() {
            continue;
        }
        let image = dir.join("being-made.img");
        let _ = fs::remove_file(&image);
        let made = match &kind.make {
            Make::Mkfs(package, line) => {
                blank(&image, kind.mib);
                let (name, words) = words(line);
                let words = words.map(|word| word.replace("{uuid}", UUID));
                tool(package, name).map(|mut mkfs| run(mkfs.args(words).arg(&image)))
            }
            Make::Ours(make) => fs::write(&image, make(kind.mib)).ok(),
            Make::Tree(package, line) => {
                let (name, words) = words(line);
                tool(package, name).map(|tool| from_tree(tool, words, dir, &image))
            }
        };
        if made.is_none() {
            return false;
        }
        if kind.writable() {
            fill(&boot(None), kind, &image, &dirty);
        }
        fs::rename(&image, &clean).expect("the base's place");
        check_fixup(kind, &clean);
    }
    true
}

/// The program's name, and what it is given.
fn words(line: &'static str) -> (&'static str, impl Iterator<Item = &'static str>) {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    (name, rest.split_whitespace())
}

fn blank(path: &Path, mib: u64) {
    let file = File::create(path).expect("a file");
    file.set_len(mib << 20).expect("its size");
}

fn run(command: &mut Command) {
    let output = command.env("LC_ALL", "C").output();
    let output = output.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
}

fn from_tree(
    mut tool: Command,
    words: impl Iterator<Item = &'static str>,
    dir: &Path,
    image: &Path,
) {
    let tree = dir.join("tree");
    let _ = fs::remove_dir_all(&tree);
    fs::create_dir(&tree).expect("a directory");
    let on_host = Kernel::host().tree(&tree).expect("the tree");
    tree::populate(&on_host).expect("a tree");
    let word = |word: &str| match word {
        "{image}" => image.as_os_str().to_owned(),
        "{dir}" => tree.as_os_str().to_owned(),
        "{uuid}" => UUID.into(),
        word => word.into(),
    };
    run(tool.args(words.map(word)));
    fs::remove_dir_all(&tree).expect("to be removed");
}

/// `dirty` gets the image as it was while it was mounted, right after a sync of
/// one file: its journal, or whatever it has, waits to be replayed.
fn fill(kernel: &Kernel, kind: &Kind, image: &Path, dirty: &Path) {
    let disk = kernel.open_disk(image, &DiskOptions::new());
    let disk = disk.expect("the disk");
    let mount = kind.mount_options().mount(kernel, disk.device());
    let mount = mount.unwrap_or_else(|e| panic!("{}: {e}\n{}", kind.name, kernel.dmesg()));
    tree::populate(&mount).unwrap_or_else(|e| panic!("{}: {e}", kind.name));
    mount.sync().expect("syncs");
    mount.write("synced", [7; 5000]).expect("writes");
    mount
        .open("synced")
        .expect("opens")
        .sync_all()
        .expect("syncs");
    let now = Sparse::load(image).expect("the image");
    now.store(&File::create(dirty).expect("a file"))
        .expect("stores");
    mount.unmount().expect("unmounts");
    disk.remove().expect("goes away");
}

/// Making the checksums right of what is sound changes nothing that is in use;
/// what is not may have been left behind with others.
fn check_fixup(kind: &Kind, clean: &Path) {
    let Some(fixup) = kind.fixup else { return };
    let base = Base::new(Sparse::load(clean).expect("the base"), tree::MAGIC);
    let mut image = base.image.clone();
    fixup(&mut image, base.metadata());
    let changed = base.image.used().filter(|&block| {
        let at = block * sparse::BLOCK;
        base.image.vec(at, 4096) != image.vec(at, 4096)
    });
    let changed = changed.count();
    let used = base.image.used().count();
    assert!(
        changed * 20 <= used,
        "{}: checksums of {changed} of {used} blocks",
        kind.name
    );
}

//! Programs that read images and share no code with Linux: they must find the
//! same bytes in the same files.

use super::manifest::Manifest;
use super::TOP;
use crate::common::TempDir;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tane_test_support::tool;

/// How to get the files out of an image.
pub enum Reader {
    /// One command (package, name, arguments, environment aside) that unpacks all
    /// into a directory: `{image}`, `{dir}`, and `{top}`, which it makes or which
    /// is where it should put what is in the image's top directory.
    Unpack(Unpack),
    /// GRUB's own drivers, file by file.
    Grub,
    /// As before, where they do not look up hard links.
    GrubWithoutLinks,
    /// By name (package, name, arguments, where `{file}` is the path in the
    /// image), file by file, on standard output.
    Cat(&'static str, &'static str, &'static [&'static str]),
}

pub struct Unpack {
    pub package: &'static str,
    pub name: &'static str,
    pub args: &'static [&'static str],
    /// Where it puts what is in the image's root.
    pub below: &'static str,
    /// Names that it has as they are.
    pub knows: fn(&str) -> bool,
    /// Whether it says by its status that all is well.
    pub status: bool,
}

/// At most so many files one by one: each is a process.
const SAMPLE: usize = 25;

/// A name that no program has a reason to change; GRUB takes none of 255 bytes.
pub fn plain(path: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b" ._/-".contains(&b);
    path.bytes().all(plain) && path.split('/').all(|name| name.len() < 255)
}

pub fn any(_: &str) -> bool {
    true
}

/// Not what other systems' tools take for a separator or turn into another name.
pub fn printable(path: &str) -> bool {
    !path.contains('\\') && !path.chars().any(char::is_control)
}

fn output(command: &mut Command) -> Output {
    let output = command.env("LC_ALL", "C.UTF-8").output();
    output.unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

fn text(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|o| String::from_utf8_lossy(o));
    let all: Vec<&str> = out.lines().chain(error.lines()).take(20).collect();
    all.join("\n")
}

/// Regular files with names that are text, and known.
fn files(wanted: &Manifest, knows: fn(&str) -> bool) -> impl Iterator<Item = (&str, &[u8])> {
    wanted.iter().filter_map(move |(path, entry)| {
        let path = path.to_str().filter(|path| knows(path))?;
        Some((path, entry.content.as_deref()?))
    })
}

/// Files with parts that were never written: GRUB takes them for errors on btrfs,
/// jfs and nilfs2, and so does 7-Zip on ext2 and ext3 for zeroes that are not.
const HOLED: [&str; 4] = ["holes", "punched", "extended", "old"];

fn without_holes(path: &str) -> bool {
    printable(path) && !HOLED.contains(&path)
}

/// What takes a process for each file gets no more than so many of the small.
fn sample(wanted: &Manifest, knows: fn(&str) -> bool) -> Vec<(&str, &[u8])> {
    let all = files(wanted, plain).filter(|(path, _)| !HOLED.contains(path) && knows(path));
    let all: Vec<_> = all.collect();
    let step = all.len().div_ceil(SAMPLE);
    let large = all.iter().filter(|(_, content)| content.len() > 100_000);
    let chosen = all.iter().step_by(step).chain(large);
    chosen.copied().collect()
}

impl Reader {
    pub fn agrees(&self, dir: &TempDir, image: &Path, wanted: &Manifest) {
        match self {
            Reader::Unpack(unpack) => unpack.agrees(dir, image, wanted),
            Reader::Grub => grub_agrees(dir, &[image], wanted),
            Reader::GrubWithoutLinks => grub_agrees_on(dir, &[image], &sample(wanted, not_linked)),
            Reader::Cat(package, name, args) => cat_agrees(package, name, args, image, wanted),
        }
    }
}

fn fill_in(args: &[&str], places: &[(&str, &OsStr)]) -> Vec<PathBuf> {
    let word = |arg: &&str| {
        let place = places.iter().find(|(name, _)| name == arg);
        PathBuf::from(place.map_or(OsStr::new(arg), |(_, value)| value))
    };
    args.iter().map(word).collect()
}

impl Unpack {
    fn agrees(&self, dir: &TempDir, image: &Path, wanted: &Manifest) {
        let Some(mut tool) = tool(self.package, self.name) else {
            return;
        };
        let out = dir.path().join("unpacked");
        let _ = fs::remove_dir_all(&out);
        fs::create_dir(&out).expect("a directory");
        let top = out.join(self.below).join(TOP);
        let places = [
            ("{image}", image.as_os_str()),
            ("{dir}", out.as_os_str()),
            ("{top}", top.as_os_str()),
        ];
        let done = output(tool.args(fill_in(self.args, &places)).current_dir(&out));
        let said = text(&done);
        assert!(
            !self.status || done.status.success(),
            "{}: {said}",
            self.name
        );
        let mut count = 0;
        for (path, content) in files(wanted, self.knows) {
            let found = fs::read(top.join(path));
            let found = found.unwrap_or_else(|e| panic!("{}: {path:?}: {e}\n{said}", self.name));
            assert!(
                found == content,
                "{}: {path:?} has other content",
                self.name
            );
            count += 1;
        }
        assert!(count > 100, "{} read {count} files", self.name);
        fs::remove_dir_all(&out).expect("to be removed");
    }
}

/// Of a file system on several images, too.
pub fn grub_agrees(dir: &TempDir, images: &[&Path], wanted: &Manifest) {
    grub_agrees_on(dir, images, &sample(wanted, any));
}

fn grub_agrees_on(dir: &TempDir, images: &[&Path], files: &[(&str, &[u8])]) {
    let copy = dir.path().join("expected");
    for (path, content) in files {
        let Some(mut grub) = tool("grub-common", "grub-fstest") else {
            return;
        };
        fs::write(&copy, content).expect("a file");
        let place = format!("(loop0)/{TOP}/{path}");
        let count = format!("--diskcount={}", images.len());
        let grub = grub.arg(count).args(images);
        let done = output(grub.arg("cmp").arg(place).arg(&copy));
        let said = text(&done);
        assert!(
            done.status.success() && said.is_empty(),
            "grub: {path:?}: {said}"
        );
    }
}

fn cat_agrees(package: &str, name: &str, args: &[&str], image: &Path, wanted: &Manifest) {
    for (path, content) in sample(wanted, any) {
        let Some(mut cat) = tool(package, name) else {
            return;
        };
        let file = format!("/{TOP}/{path}");
        let places = [
            ("{image}", image.as_os_str()),
            ("{file}", OsStr::from_bytes(file.as_bytes())),
        ];
        let done = output(cat.args(fill_in(args, &places)));
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{name}: {path:?}: {said}");
        assert!(done.stdout == content, "{name}: {path:?} has other content");
    }
}

/// All files by e2fsprogs' own reader of the format.
pub const DEBUGFS: Reader = Reader::Unpack(Unpack {
    package: "e2fsprogs",
    name: "debugfs",
    args: &["-R", "rdump /tree .", "{image}"],
    below: "",
    knows: any,
    status: true,
});

pub const SEVEN_ZIP: Reader = Reader::Unpack(Unpack {
    package: "p7zip-full",
    name: "7z",
    args: &["x", "-y", "-bd", "-snl-", "{image}"],
    below: "",
    knows: without_holes,
    status: false, // it warns of links and devices
});

/// A hard link of HFS+ is a file that names another, which it does not look up;
/// and an accent a character of its own, which it leaves so.
fn not_linked(path: &str) -> bool {
    without_holes(path) && !path.contains("link") && path.is_ascii()
}

/// It has a directory with the volume's name.
pub const SEVEN_ZIP_HFS: Reader = Reader::Unpack(Unpack {
    package: "p7zip-full",
    name: "7z",
    args: &["x", "-y", "-bd", "-snl-", "{image}"],
    below: "tane",
    knows: not_linked,
    status: false,
});

pub const MTOOLS: Reader = Reader::Unpack(Unpack {
    package: "mtools",
    name: "mcopy",
    args: &["-s", "-n", "-i", "{image}", "::/tree", "."],
    below: "",
    knows: printable,
    status: true,
});

pub const BTRFS_RESTORE: Reader = Reader::Unpack(Unpack {
    package: "btrfs-progs",
    name: "btrfs",
    args: &["restore", "{image}", "{dir}"],
    below: "",
    knows: any,
    status: true,
});

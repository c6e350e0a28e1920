//! Copies by the C library are those of the command, from a kernel in the process and
//! from a worker.

mod common;

use common::{command, compile, has_kernel, libraries, plant, run, Scratch, SHARED};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A bit of everything that needs no privileges.
fn plant_all(tree: &Path) {
    plant(tree);
    std::fs::write(tree.join("below/deeper/shut"), b"secret").expect("write");
    let shut = std::fs::Permissions::from_mode(0o4750);
    std::fs::set_permissions(tree.join("below/deeper/shut"), shut).expect("chmod");
    let sparse = File::create(tree.join("sparse")).expect("create");
    sparse.write_all_at(b"middle", 5 << 20).expect("write");
    sparse.set_len(9 << 20).expect("truncate");
    set_xattr(&tree.join("plain"), c"user.color", b"blue\0green");
    for name in ["plain", "below/large", "below"] {
        let file = File::open(tree.join(name)).expect("open");
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_234_567_890, 123_456_789);
        file.set_modified(time).expect("times");
    }
}

fn path_of(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.as_os_str().as_bytes()).expect("a path")
}

fn set_xattr(path: &Path, name: &std::ffi::CStr, value: &[u8]) {
    let (path, len) = (path_of(path), value.len());
    // SAFETY: strings and bytes that live.
    let done =
        unsafe { libc::lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), len, 0) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let path = path_of(path);
    let mut names = [0u8; 4096];
    // SAFETY: room of ours.
    let n = unsafe { libc::llistxattr(path.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    let names = &names[..usize::try_from(n).expect("a list")];
    let get = |name: &[u8]| {
        let (key, mut value) = ([name, b"\0"].concat(), [0u8; 4096]);
        // SAFETY: room of ours, and names with their NUL.
        let n = unsafe {
            let (at, len) = (value.as_mut_ptr().cast(), value.len());
            libc::lgetxattr(path.as_ptr(), key.as_ptr().cast(), at, len)
        };
        value[..usize::try_from(n).expect("a value")].to_vec()
    };
    let names = names.split(|b| *b == 0).filter(|name| !name.is_empty());
    names.map(|name| (name.to_vec(), get(name))).collect()
}

/// All that a copy keeps, by path; files that are one have the same number.
fn all_of(tree: &Path) -> BTreeMap<PathBuf, String> {
    let (mut all, mut inodes) = (BTreeMap::new(), Vec::new());
    let mut left = vec![tree.to_path_buf()];
    while let Some(path) = left.pop() {
        let stat = path.symlink_metadata().expect("stat");
        let mut content = Vec::new();
        let mut one = 0;
        if stat.is_dir() {
            let entries = std::fs::read_dir(&path).expect("a listing");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
            left.sort_by(|a, b| b.cmp(a));
        } else if stat.is_symlink() {
            content = path
                .read_link()
                .expect("a link")
                .into_os_string()
                .into_encoded_bytes();
        } else {
            content = std::fs::read(&path).expect("data");
            one = inodes
                .iter()
                .position(|ino| *ino == stat.ino())
                .unwrap_or_else(|| {
                    inodes.push(stat.ino());
                    inodes.len() - 1
                });
        }
        let sum = content
            .iter()
            .fold(0u64, |sum, b| sum.wrapping_mul(31) + u64::from(*b));
        let holes = stat.is_file() && stat.blocks() * 512 < stat.len();
        // When it was read last changes by looking.
        let times = (stat.mtime(), stat.mtime_nsec());
        let text = format!(
            "{:o} {}:{} {} {sum:x} holes {holes} file {one} {times:?} {:?}",
            stat.mode(),
            stat.uid(),
            stat.gid(),
            content.len(),
            xattrs(&path),
        );
        all.insert(path.strip_prefix(tree).expect("below").to_owned(), text);
    }
    all
}

fn is_same(copy: &Path, other: &Path) {
    let (copy, other) = (all_of(copy), all_of(other));
    for (path, text) in &other {
        assert_eq!(copy.get(path), Some(text), "{path:?}");
    }
    assert_eq!(copy.len(), other.len());
}

fn copies(mode: &str) {
    let scratch = Scratch::new(&format!("copies-{mode}"));
    let program = scratch.0.join("program");
    compile(&program, "tests/copy.c", SHARED);
    if !has_kernel() {
        return;
    }
    let (tree, image) = (scratch.0.join("tree"), scratch.0.join("image"));
    let (out, dest) = (scratch.0.join("c"), scratch.0.join("command"));
    for dir in [&tree, &out, &dest] {
        std::fs::create_dir(dir).expect("mkdir");
    }
    plant_all(&tree);
    File::create(&image)
        .and_then(|f| f.set_len(64 << 20))
        .expect("an image");
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin");
    run(mkfs.arg("-qF").arg(&image));

    let mut copy = Command::new(&program);
    copy.env("LD_LIBRARY_PATH", libraries());
    if let Ok(kernel) = tane::default_image() {
        copy.env("TANE_IMAGE", kernel);
    }
    let losses = run(copy.arg(mode).arg(&image).arg(&tree).arg(&out));

    let mut cp = Command::new(command());
    cp.args(["cp", "--json"]);
    let from = format!("{}:/in", image.display());
    let said = run(cp.arg(from).arg(dest.join("out")));
    is_same(&out.join("out"), &dest.join("out"));
    is_same(&out.join("across"), &dest.join("out"));
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let expected = said["losses"]
        .as_array()
        .expect("losses")
        .iter()
        .map(|lost| {
            let path = lost["path"].as_str().expect("a path");
            let path = path.split_once("/out").map_or(path, |(_, below)| below);
            let path = path.split_once(":/in").map_or(path, |(_, below)| below);
            let detail = lost["detail"]
                .as_str()
                .map_or(String::new(), |d| format!(" {d}"));
            let what = lost["what"].as_str().expect("what");
            format!("{}: {what}{detail}", path.trim_start_matches('/'))
        });
    let mut expected: Vec<_> = expected.collect();
    let mut losses: Vec<_> = losses.lines().map(str::to_owned).collect();
    expected.sort();
    losses.sort();
    assert!(
        losses
            .iter()
            .any(|line| line.starts_with("null: device node")),
        "{losses:?}"
    );
    assert_eq!(losses, expected);
}

#[test]
fn copies_by_a_kernel_of_the_process_are_those_of_the_command() {
    copies("kernel");
}

#[test]
fn copies_by_a_worker_are_those_of_the_command() {
    copies("worker");
}

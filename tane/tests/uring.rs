//! Promises of io_uring from the host process, by the example `uring`: what it
//! reads is what cksum(1) of coreutils reads, on two Linuxes.

mod common;
mod inside;
mod medium;

use common::{tool, TempDir};
use medium::Random;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tane_test_support::skip;

fn example() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| inside::example("uring"))
}

/// Files of all sizes around those of a page and of the example's reads, and
/// more of them than it has under way at a time.
fn tree(dir: &TempDir) -> PathBuf {
    let tree = dir.path().join("tree");
    let mut random = Random(1);
    for (i, len) in [
        0, 1, 4095, 4096, 131_071, 131_072, 131_073, 262_144, 1_000_003,
    ]
    .into_iter()
    .enumerate()
    {
        let deep = tree.join("a/b/c").join(i.to_string());
        std::fs::create_dir_all(&deep).expect("a directory");
        std::fs::write(deep.join("file"), random.bytes(len)).expect("a file");
    }
    for i in 0..200 {
        let len = random.below(9000) as usize;
        std::fs::write(tree.join(format!("f{i}")), random.bytes(len)).expect("a file");
    }
    std::os::unix::fs::symlink("f1", tree.join("link")).expect("a link");
    tree
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// What cksum(1) says of the files of a tree.
fn expected(tree: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.args([".", "-type", "f", "-printf", "%P\\0"]);
    let names = find.current_dir(tree).output().expect("find").stdout;
    let names = String::from_utf8(names).expect("our names");
    let mut cksum = Command::new("cksum");
    cksum.args(names.split_terminator('\0'));
    sorted(&inside::run(cksum.current_dir(tree)))
}

fn uring(arguments: &[&str], from: &Path) -> Output {
    // Something that waits forever shall end the test.
    let mut command = Command::new("timeout");
    command.arg("120").arg(example()).args(arguments).arg(from);
    if let Some(image) = inside::image("default") {
        command.env("TANE_IMAGE", image);
    }
    command.output().expect("timeout")
}

fn reads_all(arguments: &[&str], from: &Path, tree: &Path) {
    let output = uring(arguments, from);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    let lines = sorted(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(lines, expected(tree), "{errors}");
    // By what the kernel says of the ring, not by what was asked for.
    let polled = errors.contains(" of the kernel looks for requests");
    assert_eq!(polled, arguments.contains(&"--poll"), "{errors}");
}

/// An ext4 image of that tree.
fn image(dir: &TempDir, tree: &Path) -> PathBuf {
    let image = common::blank(dir, "tree.img", 32);
    let from = tree.to_str().expect("our name");
    tool("mkfs.ext4", &["-q", "-F", "-d", from], &image);
    image
}

/// Not every host lets its users have io_uring.
fn host_has_io_uring() -> bool {
    let mut params = [0u32; 30];
    // SAFETY: the parameters are ours, and so is the descriptor.
    unsafe {
        let fd = libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr());
        fd >= 0 && libc::close(fd as i32) == 0
    }
}

#[test]
fn io_uring_reads_a_directory_of_the_host() {
    if !host_has_io_uring() {
        return skip("the host has no io_uring for us");
    }
    let dir = TempDir::new();
    let tree = tree(&dir);
    reads_all(&[], &tree, &tree);
    reads_all(&["--poll"], &tree, &tree);
}

#[test]
fn io_uring_reads_an_image() {
    let dir = TempDir::new();
    let tree = tree(&dir);
    if inside::image("default").is_some() {
        reads_all(&[], &image(&dir, &tree), &tree);
    }
}

#[test]
fn a_thread_of_the_kernel_takes_requests_of_io_uring() {
    let dir = TempDir::new();
    let tree = tree(&dir);
    if inside::image("default").is_some() {
        reads_all(&["--poll"], &image(&dir, &tree), &tree);
    }
}

#[test]
fn what_is_no_image_is_an_error_of_the_example() {
    let dir = TempDir::new();
    if inside::image("default").is_none() {
        return;
    }
    let output = uring(&[], &common::blank(&dir, "blank.img", 1));
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("mount "), "{errors}");
}

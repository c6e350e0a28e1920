//! The example `walk` reads every file of an image.

use crate::common::{tool, TempDir};
use std::process::Command;

#[test]
fn the_example_counts_the_files_and_bytes_that_are_there() {
    let dir = TempDir::new();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("a/b")).expect("directories");
    for (name, len) in [("empty", 0), ("a/small", 77), ("a/b/large", 3_000_000)] {
        std::fs::write(tree.join(name), vec![7; len]).expect("a file");
    }
    std::os::unix::fs::symlink("a/small", tree.join("link")).expect("a link");
    let image = crate::common::blank(&dir, "tree.img", 32);
    let from = tree.to_str().expect("our name");
    tool("mkfs.ext4", &["-q", "-F", "-d", from], &image);
    let Some(kernel) = crate::inside::image("default") else {
        return;
    };
    let mut walk = Command::new(crate::inside::example("walk"));
    let said = crate::inside::run(walk.arg(&image).env("TANE_IMAGE", kernel));
    assert!(said.contains("3 files, 3000077 bytes"), "{said}");
}

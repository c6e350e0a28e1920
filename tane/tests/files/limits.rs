//! Promises about many and deep.

use crate::scratch::{boot, scratch};

#[test]
fn ten_thousand_files_may_be_open_at_once() {
    let s = scratch();
    s.write("file", "x").unwrap();
    let files: Vec<_> = (0..10_000).map(|_| s.open("file").unwrap()).collect();
    let mut byte = [0];
    files[9_999].read_exact_at(&mut byte, 0).unwrap();
    assert_eq!(&byte, b"x");
}

#[test]
fn a_tree_three_thousand_deep_is_removed_whole() {
    let s = scratch();
    s.create_dir("top").unwrap();
    let mut dir = s.open_dir("top").unwrap();
    for _ in 0..3000 {
        dir.create_dir("d", 0o755).unwrap();
        dir.create("file").unwrap();
        dir = dir.open_dir("d").unwrap();
    }
    drop(dir);
    s.remove_dir_all("top").unwrap();
    assert!(!s.exists("top").unwrap());
}

#[test]
fn two_hundred_mounts_come_and_go() {
    let kernel = boot();
    for _ in 0..200 {
        crate::scratch::tmpfs_on(&kernel).unmount().unwrap();
    }
    let root = kernel.tree("/mnt").unwrap();
    assert_eq!(root.read_dir("/").unwrap().count(), 0);
}

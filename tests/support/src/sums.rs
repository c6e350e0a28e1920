//! A tree of files, and what cksum(1) of coreutils says of it: what programs that
//! read trees are held to.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Bytes of which no two pages are the same.
pub fn bytes(len: usize, seed: u32) -> Vec<u8> {
    let byte = |i: u32| (i.wrapping_mul(0x9e37_79b1).wrapping_add(seed) >> 15) as u8;
    (0..len as u32).map(byte).collect()
}

/// Files of all sizes around those of a page and of a read of 128 KiB, deep and
/// beside each other, and more of them than programs have under way at a time.
pub fn tree(at: &Path) {
    for (i, len) in [
        0, 1, 4095, 4096, 131_071, 131_072, 131_073, 262_144, 1_000_003,
    ]
    .into_iter()
    .enumerate()
    {
        let deep = at.join("a/b/c").join(i.to_string());
        std::fs::create_dir_all(&deep).expect("a directory");
        std::fs::write(deep.join("file"), bytes(len, i as u32)).expect("a file");
    }
    for i in 0..200 {
        let len = i * 7919 % 9001;
        std::fs::write(at.join(format!("f{i}")), bytes(len, i as u32)).expect("a file");
    }
    symlink("f1", at.join("link")).expect("a link");
}

/// The lines of a text in an order of their own.
pub fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// What cksum(1) says of the files of a tree, sorted.
pub fn cksum(tree: &Path) -> Vec<String> {
    let mut find = Command::new("find");
    find.args([".", "-type", "f", "-printf", "%P\\0"]);
    let names = find.current_dir(tree).output().expect("find").stdout;
    let names = String::from_utf8(names).expect("our names");
    let mut cksum = Command::new("cksum");
    cksum.args(names.split_terminator('\0'));
    let output = cksum.current_dir(tree).output().expect("cksum");
    assert!(output.status.success(), "{output:?}");
    sorted(&String::from_utf8_lossy(&output.stdout))
}

//! Promises about what an erofs is made of: an ext4 that is shown in a directory.
#![cfg(feature = "fuse")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;
use tane_make::{Direct, Means, Tool};
use tane_test_support::{can_mount, has_kernel, tool, Scratch};

#[test]
fn an_ext4_is_shown_as_one_whatever_its_first_bytes_say() {
    if has_kernel(tane::default_image()).is_none() || !can_mount() {
        return;
    }
    let Some(mut mke2fs) = tool("e2fsprogs", "mke2fs") else {
        return;
    };
    let s = Scratch::new("shown");
    fs::create_dir(s.join("tree")).expect("a directory");
    fs::write(s.join("tree/file"), "a file").expect("a file");
    let image = File::create(s.join("image.ext4")).expect("a file");
    image.set_len(4 << 20).expect("its size");
    mke2fs.args(["-q", "-t", "ext4", "-d"]).arg(s.join("tree"));
    let made = mke2fs.arg(s.join("image.ext4")).status();
    assert!(made.expect("mke2fs").success());
    // Those of a qcow2. No file system uses them.
    let first = [&b"QFI\xfb"[..], &2_u32.to_be_bytes()].concat();
    image.write_all_at(&first, 0).expect("room");
    assert!(tane::Image::open(s.join("image.ext4")).is_err());

    let lists = Tool {
        program: "ls",
        package: "coreutils",
    };
    let direct = Direct::new();
    let output = direct.ask_shown(lists, &mut Command::new("ls"), &s.join("image.ext4"));
    let said = String::from_utf8(output.expect("a listing").stdout).expect("UTF-8");
    assert_eq!(said, "file\nlost+found\n");
    assert!(!s.join("image.dir").exists());
}

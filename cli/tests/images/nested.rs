//! Images inside images, through the command.

use crate::common::*;
use std::process::Command;

/// outer.img: a file system with a qcow2 and a raw disk of an inner one, with a
/// partition.
fn make(s: &Scratch) {
    s.write("tree/f", b"inner\n");
    let fs = std::fs::read(s.ext4("fs", Some(&s.join("tree")), 16)).expect("the file system");
    let mut disk = vec![0u8; 1 << 20];
    disk[446 + 4] = 0x83;
    disk[454..458].copy_from_slice(&2048u32.to_le_bytes());
    disk[458..462].copy_from_slice(&((fs.len() / 512) as u32).to_le_bytes());
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk.extend(&fs);
    s.write("outer/parts.img", &disk);
    let mut qemu = Command::new("qemu-img");
    succeed(
        qemu.args(["convert", "-O", "qcow2", "fs", "outer/d.qcow2"])
            .current_dir(s.path()),
    );
    s.write("outer/x:/y", b"no image\n");
    s.write("outer/d.001", &fs);
    s.write("outer/d.002", b"more");
    s.ext4("outer.img", Some(&s.join("outer")), 112);
}

#[test]
fn an_image_in_an_image_is_read_and_its_parts_are_chosen() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    make(&s);
    let before = s.read("outer.img");
    for at in [
        "outer.img:/d.qcow2:/f",
        "outer.img:/parts.img:/f",
        "outer.img:/parts.img@1:/f",
    ] {
        assert_eq!(
            succeed(s.tane().args(["cat", at])).stdout,
            b"inner\n",
            "{at}"
        );
    }
    succeed(s.tane().args(["cp", "outer.img:/d.qcow2:/f", "f"]));
    assert_eq!(s.read("f"), b"inner\n");
    // What exists under its full name is that, and new names in "x:" go there.
    let plain = succeed(s.tane().args(["cat", "outer.img:/x:/y"]));
    assert_eq!(plain.stdout, b"no image\n");
    let found = text(&succeed(s.tane().args(["inspect", "outer.img:/parts.img"])).stdout);
    assert!(
        found.starts_with("outer.img:/parts.img  raw, 17M, in another image"),
        "{found}"
    );
    // Part of a disk is no disk.
    let said = text(&exit(s.tane().args(["cat", "outer.img:/d.001:/f"]), 3).stderr);
    assert!(said.contains("first piece"), "{said}");
    let raw = ["--format=raw", "cat", "outer.img:/d.001:/f"];
    assert_eq!(succeed(s.tane().args(raw)).stdout, b"inner\n");
    let said = text(&exit(s.tane().args(["ls", "outer.img:/none:/f"]), 1).stderr);
    assert!(said.contains("outer.img:/none:/f"), "{said}");
    assert!(s.read("outer.img") == before);
}

#[test]
fn what_is_written_goes_through_both() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    make(&s);
    s.write("new", &[7; 3_000_000]);
    let before = s.read("outer.img");
    let memory = "--overlay=:memory:";
    succeed(
        s.tane()
            .args([memory, "cp", "new", "outer.img:/d.qcow2:/new"]),
    );
    assert!(s.read("outer.img") == before);
    for image in ["d.qcow2", "parts.img"] {
        let at = format!("outer.img:/{image}:/new");
        succeed(s.tane().args(["cp", "new", &at]));
        succeed(s.tane().args(["cp", &format!("outer.img:/{image}"), "out"]));
        let mut qemu = Command::new("qemu-img");
        succeed(
            qemu.args(["convert", "-O", "raw", "out", "back"])
                .current_dir(s.path()),
        );
        let mut back = s.read("back");
        if image == "parts.img" {
            back.drain(..1 << 20);
        }
        let back = s.write("back", &back);
        assert_sound(&back);
        let debugfs = succeed(sbin("debugfs").args(["-R", "cat /new"]).arg(&back));
        assert!(debugfs.stdout == s.read("new"), "{image}");
        std::fs::remove_file(s.join("out")).expect("removes");
    }
    assert_sound(&s.join("outer.img"));
}

#[test]
fn three_deep() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    make(&s);
    std::fs::create_dir(s.join("outmost")).expect("mkdir");
    std::fs::rename(s.join("outer.img"), s.join("outmost/outer.img")).expect("moves");
    s.ext4("outmost.img", Some(&s.join("outmost")), 160);
    let at = "outmost.img:/outer.img:/d.qcow2:/f";
    assert_eq!(succeed(s.tane().args(["cat", at])).stdout, b"inner\n");
}

#[test]
fn a_further_disk_is_one_of_the_outermost_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/f", b"inner\n");
    s.ext4("fs", Some(&s.join("tree")), 16);
    for name in ["a", "b"] {
        std::fs::File::create(s.join(name))
            .and_then(|file| file.set_len(200 << 20))
            .expect("a file");
    }
    succeed(&mut s.command("mkfs.btrfs", "-q -d raid0 -m raid1 a b"));
    succeed(s.tane().args(["--with=b", "cp", "fs", "a:/fs"]));
    let inner = "a:/fs:/f";
    let read = succeed(s.tane().args(["--with=b", "cat", inner]));
    assert_eq!(text(&read.stdout), "inner\n");
    s.write("g", b"more\n");
    succeed(s.tane().args(["--with=b", "cp", "g", "a:/fs:/g"]));
    let read = succeed(s.tane().args(["--with=b", "cat", "a:/fs:/g"]));
    assert_eq!(text(&read.stdout), "more\n");
    // Without it the outer one cannot be mounted.
    exit(s.tane().args(["cat", inner]), 3);
}

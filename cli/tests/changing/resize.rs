//! Promises of `tane mkfs`, `tane fsck` and `tane resize`.

use crate::common::*;
use crate::mkfs::state;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

pub fn json(command: &mut Command) -> serde_json::Value {
    let output = succeed(command.arg("--json"));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The image with a file in it, which has to outlive what is done to the rest.
pub fn put_marker(scratch: &Scratch, image: &str) {
    scratch.write("marker", b"still here\n");
    let to = format!("{image}:/");
    succeed(scratch.tane().args(["cp", "-q", "marker", &to]));
}

pub fn assert_marker(scratch: &Scratch, image: &str) {
    let from = format!("{image}:/marker");
    let read = succeed(scratch.tane().args(["cat", &from]));
    assert_eq!(text(&read.stdout), "still here\n");
}

fn gpt(image: &Path, mib: u64) {
    let file = std::fs::File::create(image).expect("an image file");
    file.set_len(mib << 20).expect("its size");
    let mut sfdisk = sbin("sfdisk")
        .arg("-q")
        .arg(image)
        .stdin(Stdio::piped())
        .spawn();
    let sfdisk = sfdisk.as_mut().expect("sfdisk");
    let mut input = sfdisk.stdin.take().expect("its input");
    input
        .write_all(b"label: gpt\n,20M\n,40M\n")
        .expect("writes");
    drop(input);
    assert!(sfdisk.wait().expect("waits").success());
}

#[test]
fn file_systems_that_grow_are_made_found_sound_and_grown() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    for fs in ["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"] {
        let args = ["mkfs", "--fs", fs, "--size=400M", "--label=mine", fs];
        succeed(scratch.tane().args(args));
        put_marker(&scratch, fs);
        let before = json(scratch.tane().args(["resize", fs, "max"]));
        let after = json(scratch.tane().args(["resize", fs, "+200M"]));
        assert_eq!(after["old_size"], 400 << 20, "{fs}");
        assert_eq!(after["size"], 600 << 20, "{fs}");
        let capacity = |v: &serde_json::Value| v["capacity"].as_u64().expect("bytes");
        assert!(capacity(&after) > capacity(&before) + (150 << 20), "{fs}");
        assert_eq!(
            json(scratch.tane().args(["fsck", fs]))["state"],
            "clean",
            "{fs}"
        );
        assert_marker(&scratch, fs);
        std::fs::remove_file(scratch.join(fs)).expect("removes");
    }
}

#[test]
fn jfs_nilfs2_and_ntfs_grow() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    for (fs, checked) in [("jfs", true), ("nilfs2", false), ("ntfs", true)] {
        let args = ["mkfs", "--fs", fs, "--size=200M", "--label=mine", fs];
        succeed(scratch.tane().args(args));
        put_marker(&scratch, fs);
        let before = json(scratch.tane().args(["resize", fs, "max"]));
        let after = json(scratch.tane().args(["resize", fs, "+200M"]));
        let capacity = |v: &serde_json::Value| v["capacity"].as_u64().expect("bytes");
        assert!(capacity(&after) > capacity(&before) + (180 << 20), "{fs}");
        if checked {
            assert_eq!(state(&scratch, fs, &[]), "clean", "{fs}");
        }
        assert_marker(&scratch, fs);
        // It may be written to, as before.
        put_marker(&scratch, fs);
        std::fs::remove_file(scratch.join(fs)).expect("removes");
    }
}

#[test]
fn ntfs_and_nilfs2_shrink_and_the_image_with_them() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    for fs in ["ntfs", "nilfs2"] {
        succeed(scratch.tane().args(["mkfs", "--fs", fs, "--size=400M", fs]));
        put_marker(&scratch, fs);
        succeed(scratch.tane().args(["resize", fs, "200M"]));
        let len = scratch.join(fs).metadata().expect("an image").len();
        assert_eq!(len, 200 << 20, "{fs}");
        assert_marker(&scratch, fs);
        put_marker(&scratch, fs);
    }
    assert_eq!(state(&scratch, "ntfs", &[]), "clean");
}

#[test]
fn what_cannot_be_resized_says_so_and_stays() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    succeed(
        scratch
            .tane()
            .args(["mkfs", "--fs=vfat", "--size=64M", "a.img"]),
    );
    let failed = exit(scratch.tane().args(["resize", "a.img", "100M"]), 1);
    assert!(text(&failed.stderr).contains("cannot be resized"));
    let len = scratch.join("a.img").metadata().expect("an image").len();
    assert_eq!(len, 64 << 20);
    assert_eq!(
        json(scratch.tane().args(["fsck", "a.img"]))["state"],
        "clean"
    );
}

#[test]
fn ext4_shrinks_and_the_image_with_it() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.ext4("a.img", None, 300);
    put_marker(&scratch, "a.img");
    succeed(scratch.tane().args(["resize", "a.img", "100M"]));
    let image = scratch.join("a.img");
    assert_eq!(image.metadata().expect("an image").len(), 100 << 20);
    assert_sound(&image);
    assert_marker(&scratch, "a.img");
}

#[test]
fn the_last_partition_grows_and_shrinks_with_its_file_system() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.join("a.img");
    gpt(&image, 100);
    succeed(scratch.tane().args(["mkfs", "a.img@1"]));
    succeed(scratch.tane().args(["mkfs", "a.img@2"]));
    put_marker(&scratch, "a.img@2");
    for size in ["200M", "30M"] {
        succeed(scratch.tane().args(["resize", "a.img@2", size]));
        let told = json(scratch.tane().args(["inspect", "a.img"]));
        let volumes = told["volumes"].as_array().expect("volumes");
        let second = volumes
            .iter()
            .find(|v| v["number"] == 2)
            .expect("the second");
        let mib: u64 = size.trim_end_matches('M').parse().expect("a number");
        assert_eq!(second["size"], mib << 20);
        succeed(sbin("sfdisk").args(["-q", "--verify"]).arg(&image));
        for which in ["a.img@1", "a.img@2"] {
            assert_eq!(json(scratch.tane().args(["fsck", which]))["state"], "clean");
        }
        assert_marker(&scratch, "a.img@2");
    }
}

#[test]
fn a_partition_grows_into_free_space_behind_it_and_no_further() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let image = scratch.join("a.img");
    gpt(&image, 100);
    for which in ["a.img@1", "a.img@2"] {
        succeed(scratch.tane().args(["mkfs", which]));
    }
    put_marker(&scratch, "a.img@1");
    put_marker(&scratch, "a.img@2");
    let failed = exit(scratch.tane().args(["resize", "a.img@1", "30M"]), 1);
    let told = text(&failed.stderr);
    assert!(
        told.contains("partition 1 can have 20971520 bytes"),
        "{told}"
    );
    // It makes room for itself.
    succeed(scratch.tane().args(["resize", "a.img@1", "10M"]));
    let grown = json(scratch.tane().args(["resize", "a.img@1", "15M"]));
    assert_eq!(grown["size"], 15 << 20);
    let grown = json(scratch.tane().args(["resize", "a.img@1", "max"]));
    assert_eq!(grown["size"], 20 << 20);
    succeed(sbin("sfdisk").args(["-q", "--verify"]).arg(&image));
    assert_eq!(image.metadata().expect("an image").len(), 100 << 20);
    for which in ["a.img@1", "a.img@2"] {
        assert_eq!(json(scratch.tane().args(["fsck", which]))["state"], "clean");
        assert_marker(&scratch, which);
    }
}

#[test]
fn a_qcow2_and_the_partition_in_it_grow_in_one_step() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    gpt(&scratch.join("a.img"), 100);
    for which in ["a.img@1", "a.img@2"] {
        succeed(scratch.tane().args(["mkfs", which]));
        put_marker(&scratch, which);
    }
    let qemu = |args: &[&str]| {
        let mut command = Command::new("qemu-img");
        succeed(command.args(args).current_dir(scratch.path())).stdout
    };
    qemu(&["convert", "-O", "qcow2", "a.img", "a.qcow2"]);
    for size in [300u64, 35] {
        let wanted = format!("{size}M");
        let done = json(scratch.tane().args(["resize", "a.qcow2@2", &wanted]));
        assert_eq!(done["size"], size << 20);
        qemu(&["check", "-q", "a.qcow2"]);
        qemu(&["convert", "-O", "raw", "a.qcow2", "b.img"]);
        let image = scratch.join("b.img");
        succeed(sbin("sfdisk").args(["-q", "--verify"]).arg(&image));
        succeed(sbin("sgdisk").arg("-v").arg(&image));
        for which in ["a.qcow2@1", "a.qcow2@2"] {
            assert_eq!(json(scratch.tane().args(["fsck", which]))["state"], "clean");
            assert_marker(&scratch, which);
        }
    }
    let told: serde_json::Value =
        serde_json::from_slice(&qemu(&["info", "--output=json", "a.qcow2"])).expect("JSON");
    // Where partition 2 starts, what it had, and room for the table's copy.
    assert_eq!(told["virtual-size"], (1 + 20 + 300 + 1) << 20);
    // All of an image, without a table.
    qemu(&["create", "-q", "-f", "qcow2", "c.qcow2", "50M"]);
    succeed(scratch.tane().args(["mkfs", "c.qcow2"]));
    succeed(scratch.tane().args(["resize", "c.qcow2", "+1G"]));
    assert_eq!(
        json(scratch.tane().args(["fsck", "c.qcow2"]))["state"],
        "clean"
    );
    // What the backing file has behind the old end would be seen.
    qemu(&[
        "create", "-q", "-f", "qcow2", "-b", "c.qcow2", "-F", "qcow2", "d.qcow2",
    ]);
    let failed = exit(scratch.tane().args(["resize", "d.qcow2", "+1G"]), 1);
    assert!(text(&failed.stderr).contains("in another file too"));
}

#[test]
fn a_container_is_made_into_grown_and_shrunk_within() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let qemu = |args: &[&str]| {
        let mut command = Command::new("qemu-img");
        succeed(command.args(args).current_dir(scratch.path()));
    };
    qemu(&["create", "-q", "-f", "qcow2", "a.qcow2", "200M"]);
    succeed(scratch.tane().args(["mkfs", "a.qcow2"]));
    put_marker(&scratch, "a.qcow2");
    qemu(&["resize", "-q", "a.qcow2", "400M"]);
    let grown = json(scratch.tane().args(["resize", "a.qcow2", "max"]));
    assert_eq!(grown["size"], 400 << 20);
    succeed(scratch.tane().args(["resize", "a.qcow2", "150M"]));
    assert_eq!(
        json(scratch.tane().args(["fsck", "a.qcow2"]))["state"],
        "clean"
    );
    assert_marker(&scratch, "a.qcow2");
    qemu(&["check", "-q", "a.qcow2"]);
}

#[test]
fn a_logical_partition_of_a_container_is_refused_before_anything_is_changed() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let shell = "truncate -s 60M a.img && \
                 printf 'label: dos\\na1: size=8M\\na2: size=45M, type=5\\na5: size=40M\\n' | /usr/sbin/sfdisk -q a.img && \
                 qemu-img convert -O qcow2 a.img a.qcow2";
    let mut sh = Command::new("sh");
    succeed(sh.args(["-c", shell]).current_dir(scratch.path()));
    succeed(scratch.tane().args(["mkfs", "a.qcow2@5"]));
    put_marker(&scratch, "a.qcow2@5");
    let before = scratch.read("a.qcow2");
    for size in ["20M", "42M"] {
        let failed = exit(scratch.tane().args(["resize", "a.qcow2@5", size]), 1);
        let told = text(&failed.stderr);
        assert!(
            told.contains("is a logical partition in a container"),
            "{told}"
        );
        assert!(scratch.read("a.qcow2") == before);
    }
    assert_marker(&scratch, "a.qcow2@5");
}

//! Images in containers, through the command. Made and judged by qemu-img.

mod common;

use common::*;

/// An ext4 with one file, as each container.
fn as_container(s: &Scratch, words: &str, name: &str) {
    s.write("tree/f", b"data\n");
    s.ext4("disk.raw", Some(&s.join("tree")), 16);
    let line = format!("convert -f raw {words} disk.raw {name}");
    let mut qemu = std::process::Command::new("qemu-img");
    succeed(qemu.args(line.split(' ')).current_dir(s.join(".")));
}

fn qemu_reads(s: &Scratch, image: &str) -> std::path::PathBuf {
    let mut qemu = std::process::Command::new("qemu-img");
    let line = ["convert", "-O", "raw", image, "back.raw"];
    succeed(qemu.args(line).current_dir(s.join(".")));
    s.join("back.raw")
}

#[test]
fn containers_are_read_and_written_like_raw_images() {
    if !has_kernel() {
        return;
    }
    for words in [
        "-O qcow2 -c",
        "-O vmdk",
        "-O vpc -o force_size=on",
        "-O vhdx",
    ] {
        let s = Scratch::new();
        as_container(&s, words, "disk");
        assert_eq!(succeed(s.tane().args(["cat", "disk:/f"])).stdout, b"data\n");
        s.write("new", &[7; 3_000_000]);
        succeed(s.tane().args(["cp", "new", "disk:/new"]));
        let back = qemu_reads(&s, "disk");
        assert_sound(&back);
        let debugfs = succeed(sbin("debugfs").args(["-R", "cat /new"]).arg(&back));
        assert!(debugfs.stdout == s.read("new"), "{words}");
    }
}

#[test]
fn an_overlay_has_the_changes_and_the_image_keeps_its_bytes() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    as_container(&s, "-O vmdk -o subformat=streamOptimized", "disk");
    let before = s.read("disk");
    let refused = exit(s.tane().args(["touch", "disk:/g"]), 3);
    assert!(text(&refused.stderr).contains("overlay"), "{refused:?}");
    let over = "--overlay=over.qcow2";
    // Nothing is there yet, and reading makes nothing.
    succeed(s.tane().args([over, "cat", "disk:/f"]));
    assert!(!s.join("over.qcow2").exists());
    succeed(s.tane().args([over, "mv", "disk:/f", "disk:/g"]));
    assert_eq!(
        succeed(s.tane().args([over, "cat", "disk:/g"])).stdout,
        b"data\n"
    );
    exit(s.tane().args(["cat", "disk:/g"]), 1);
    assert!(s.read("disk") == before);
    assert_sound(&qemu_reads(&s, "over.qcow2"));
}

#[test]
fn a_compressed_image_is_read_and_its_unpacking_is_told() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    as_container(&s, "-O raw", "disk");
    let gzip = std::process::Command::new("gzip")
        .arg(s.join("disk"))
        .status();
    assert!(gzip.expect("gzip").success());
    let output = succeed(s.tane().args(["cat", "disk.gz:/f"]));
    assert_eq!(output.stdout, b"data\n");
    assert!(text(&output.stderr).contains("unpacking"), "{output:?}");
    let output = succeed(s.tane().args(["-q", "cat", "disk.gz:/f"]));
    assert_eq!(output.stderr, b"");
}

#[test]
fn a_backing_file_elsewhere_is_refused_until_it_is_trusted() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    as_container(&s, "-O raw", "base");
    std::fs::create_dir(s.join("sub")).expect("a directory");
    let mut qemu = std::process::Command::new("qemu-img");
    let line = "create -q -f qcow2 -b ../base -F raw sub/disk";
    succeed(qemu.args(line.split(' ')).current_dir(s.join(".")));
    let refused = exit(s.tane().args(["cat", "sub/disk:/f"]), 3);
    assert!(text(&refused.stderr).contains("--trust"), "{refused:?}");
    let output = succeed(s.tane().args(["--trust=base", "cat", "sub/disk:/f"]));
    assert_eq!(output.stdout, b"data\n");
}

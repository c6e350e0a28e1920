//! What a name says: by its ending, which container is made; by all of it, whether a file is
//! written that an image names.

use crate::common::*;

fn info(s: &Scratch, name: &str) -> serde_json::Value {
    let args = ["info", "--output=json", name];
    let said = succeed(s.tool("qemu-img").args(args)).stdout;
    serde_json::from_slice(&said).expect("JSON")
}

/// The disk of a container that QEMU finds no fault with.
fn disk(s: &Scratch, name: &str) -> std::path::PathBuf {
    succeed(s.tool("qemu-img").args(["check", "-q", name]));
    succeed(
        s.tool("qemu-img")
            .args(["convert", "-O", "raw", name, "disk.raw"]),
    );
    s.join("disk.raw")
}

#[test]
fn a_new_image_is_the_container_that_it_is_called() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    make::tree(&s, "tree", false);
    succeed(s.tane().args(["mkfs", "--size=64M", "new.qcow2"]));
    assert_eq!(info(&s, "new.qcow2")["format"], "qcow2");
    assert_eq!(info(&s, "new.qcow2")["virtual-size"], 64 << 20);
    assert_sound(&disk(&s, "new.qcow2"));
    // Through the option, and again: nothing is replaced.
    let again = ["mkfs", "--size=64M", "--format=qcow2"];
    exit(s.tane().args(again).arg("new.qcow2"), 1);
    succeed(s.tane().args(again).arg("new.img"));
    assert_eq!(info(&s, "new.img")["format"], "qcow2");
    succeed(
        s.tane()
            .args(["mkfs", "--size=64M", "--format=raw", "raw.qcow2"]),
    );
    assert_sound(&s.join("raw.qcow2"));

    succeed(s.tane().args(["make-image", "tree", "raw.img"]));
    for (name, more) in [
        ("one.qcow2", &[][..]),
        ("two.qcow2", &[]),
        ("disk.qcow2", &["--partition-table=gpt"]),
    ] {
        succeed(s.tane().args(["make-image", "tree", name]).args(more));
        assert_eq!(info(&s, name)["format"], "qcow2");
    }
    make::assert_equal(&disk(&s, "one.qcow2"), &s.join("raw.img"));
    make::assert_equal(&s.join("one.qcow2"), &s.join("two.qcow2"));
    let listed = succeed(s.tane().args(["ls", "disk.qcow2"])).stdout;
    assert!(text(&listed).contains("dir1"));
    disk(&s, "disk.qcow2");
    let left = std::fs::read_dir(s.path()).expect("a directory");
    let names = left.map(|entry| entry.expect("an entry").file_name());
    let part: Vec<_> = names
        .filter(|n| n.to_string_lossy().contains(".tane-"))
        .collect();
    assert!(part.is_empty(), "{part:?}");
}

#[test]
fn containers_that_cannot_be_made_are_refused_by_name() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("tree/file", b"x");
    for name in ["a.vmdk", "a.vhd", "a.vhdx", "a.vdi", "a.img.gz"] {
        for verb in [&["mkfs", "--size=64M"][..], &["make-image", "tree"]] {
            let said = text(&exit(s.tane().args(verb).arg(name), 2).stderr);
            assert!(said.contains("raw and qcow2 can"), "{said}");
            assert!(!s.join(name).exists());
        }
    }
    let vdi = ["mkfs", "--size=64M", "--format=vmdk", "a.img"];
    exit(s.tane().args(vdi), 2);
    s.ext4("g.img", None, 16);
    for name in ["a.zip", "a.tar.lz4", "a.7z", "a.qcow2"] {
        let create = ["tar", "create", name, "g.img:/"];
        let said = text(&exit(s.tane().args(create), 2).stderr);
        assert!(said.contains(".tar.zst"), "{said}");
        assert!(!s.join(name).exists());
    }
}

#[test]
fn an_archive_is_compressed_as_it_is_called() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let big: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
    s.write("tree/big", &big);
    s.ext4("g.img", Some(&s.join("tree")), 32);
    for (name, program) in [
        ("a.tar.gz", "gzip"),
        ("a.tgz", "gzip"),
        ("a.tar.xz", "xz"),
        ("a.tar.zst", "zstd"),
        ("a.tar.bz2", "bzip2"),
    ] {
        succeed(s.tane().args(["tar", "create", name, "g.img:/big"]));
        // Its own program tests it, and GNU tar reads it.
        succeed(s.tool(program).args(["-t", "-q", name]));
        let out = succeed(s.tool("tar").args(["-xOf", name, "big"])).stdout;
        assert!(out == big, "{name}");
        assert!(s.read(name).len() < big.len() / 2, "{name}");
        // Twice the same.
        let first = s.read(name);
        succeed(s.tane().args(["tar", "create", name, "g.img:/big"]));
        assert!(s.read(name) == first, "{name}");
    }
    let create = ["tar", "create", "--compression=xz", "-", "g.img:/big"];
    let packed = succeed(s.tane().args(create)).stdout;
    assert!(packed.starts_with(b"\xfd7zXZ\0"));
    let plain = ["tar", "create", "--compression=none", "b.gz", "g.img:/big"];
    succeed(s.tane().args(plain));
    assert!(s.read("b.gz").len() > big.len());
}

#[test]
fn an_overlay_that_nothing_came_of_is_filled_the_next_time() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.write("no.qcow2", b"QFI\xfb and nothing more");
    s.ext4("disk.img", None, 16);
    let touched = |image: &str| [format!("{image}:/new")];
    let mut first = s.tane();
    first
        .args(["--overlay=over", "touch"])
        .args(touched("no.qcow2"));
    assert!(!first.output().expect("tane").status.success());
    succeed(
        s.tane()
            .args(["--overlay=over", "touch"])
            .args(touched("disk.img")),
    );
    succeed(
        s.tane()
            .args(["--overlay=over", "ls"])
            .args(touched("disk.img")),
    );
    // A word that is no image leaves nothing.
    let mut wrong = s.tane();
    wrong
        .args(["--overlay=another", "touch"])
        .args(touched("typo.img"));
    assert!(!wrong.output().expect("tane").status.success());
    assert!(!s.join("another").exists());
}

#[test]
fn an_image_does_not_have_its_neighbours_written() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4(".bashrc", None, 16);
    let text = "# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\n\
                createType=\"monolithicFlat\"\nRW 32768 FLAT \"NAME\" 0\n";
    s.write("evil.vmdk", text.replace("NAME", ".bashrc").as_bytes());
    s.write("f", b"a file");
    let before = s.read(".bashrc");
    for words in [
        &["cp", "f", "evil.vmdk:/"][..],
        &["fsck", "--repair", "evil.vmdk"],
    ] {
        let said = crate::common::text(&exit(s.tane().args(words), 3).stderr);
        assert!(said.contains("would have .bashrc written"), "{said}");
    }
    assert!(s.read(".bashrc") == before);
    succeed(s.tane().args(["ls", "evil.vmdk"]));
    // What has its name is written, and named.
    std::fs::rename(s.join(".bashrc"), s.join("evil-flat.vmdk")).expect("rename");
    s.write(
        "evil.vmdk",
        text.replace("NAME", "evil-flat.vmdk").as_bytes(),
    );
    let said = succeed(s.tane().args(["cp", "f", "evil.vmdk:/"]));
    let said = crate::common::text(&said.stderr);
    let (_, parts) = said
        .split_once("these parts of it are written too: ")
        .expect("parts");
    assert!(parts.trim_end().ends_with("/evil-flat.vmdk"), "{said}");
}

//! Several images seen as one, by --lower: as the host's overlayfs shows the same
//! directories, and as is worked out by hand.

use crate::common::*;
use std::process::Command;
use tane_test_support::{has_root, skip};

/// Three layers, in directories of these names, the topmost last. What a layer
/// hides takes root: a device, and an attribute of trusted.
fn layers(scratch: &Scratch) {
    for file in [
        "base/only-base",
        "base/all",
        "base/removed",
        "base/d/from-base",
        "base/d/deep/x",
        "base/replaced/from-base",
        "middle/all",
        "middle/d/from-middle",
        "middle/removed-above",
        "top/all",
        "top/d/from-top",
        "top/replaced/from-top",
    ] {
        let layer = file.split('/').next().unwrap_or_default();
        scratch.write(file, layer.as_bytes());
    }
    // Not all of them keep more than seconds.
    let mut touch = scratch.tool("sh");
    succeed(touch.args(["-c", "find base middle top -exec touch -d @1000000000 {} +"]));
    for name in ["middle/removed", "top/removed-above"] {
        succeed(&mut scratch.command("mknod", &format!("{name} c 0 0")));
    }
    let set = "-n trusted.overlay.opaque -v y top/replaced";
    succeed(&mut scratch.command("setfattr", set));
}

/// One of each kind, by its own tool.
fn images(scratch: &Scratch) {
    layers(scratch);
    succeed(&mut scratch.command("mksquashfs", "base base.img -quiet -no-progress"));
    succeed(&mut scratch.command("mkfs.erofs", "middle.img middle"));
    scratch.ext4("top.img", Some(&scratch.join("top")), 16);
}

const LOWER: [&str; 4] = ["--lower", "middle.img", "--lower", "base.img"];

fn merged(scratch: &Scratch) -> Command {
    let mut tane = scratch.tane();
    tane.args(LOWER);
    tane
}

#[test]
fn layers_are_seen_as_one_with_what_they_hide_hidden() {
    if !has_kernel() || !has_root() {
        return;
    }
    let scratch = Scratch::new();
    images(&scratch);
    let before = LAYER_IMAGES.map(|image| scratch.read(image));
    let found = succeed(merged(&scratch).args(["find", "top.img", "--type", "f"]));
    let mut found: Vec<_> = text(&found.stdout).lines().map(str::to_owned).collect();
    found.sort();
    let wanted = [
        "/all",
        "/d/deep/x",
        "/d/from-base",
        "/d/from-middle",
        "/d/from-top",
        "/only-base",
        "/replaced/from-top",
    ];
    assert_eq!(found, wanted);
    for (file, layer) in [
        ("all", "top"),
        ("d/from-middle", "middle"),
        ("only-base", "base"),
    ] {
        let cat = succeed(merged(&scratch).args(["cat", &format!("top.img:/{file}")]));
        assert_eq!(text(&cat.stdout), layer, "{file}");
    }
    exit(merged(&scratch).args(["cat", "top.img:/removed"]), 1);
    assert!(LAYER_IMAGES.map(|image| scratch.read(image)) == before);
}

const LAYER_IMAGES: [&str; 3] = ["base.img", "middle.img", "top.img"];

#[test]
fn copies_archives_and_mounts_have_what_the_hosts_overlayfs_shows() {
    if !has_kernel() || !has_root() {
        return;
    }
    let scratch = Scratch::new();
    images(&scratch);
    std::fs::create_dir(scratch.join("mnt")).expect("a directory");
    let script = "mount -t overlay overlay -o ro,lowerdir=top:middle:base mnt && cp -a mnt seen";
    let mut unshare = scratch.tool("unshare");
    let host = unshare.args(["-m", "sh", "-c", script]).output();
    if !host.is_ok_and(|host| host.status.success()) {
        skip("this host mounts no overlayfs for us");
        return;
    }
    let manifest = |dir: &str| {
        let all = manifest(&scratch.join(dir), "dir-mtime,holes");
        // The ext4 has one.
        let own = |line: &String| !line.contains("lost+found");
        all.into_iter().filter(own).collect::<Vec<_>>()
    };
    let wanted = manifest("seen");
    succeed(merged(&scratch).args(["cp", "-q", "top.img:/.", "copied"]));
    assert_same(&manifest("copied"), &wanted);
    succeed(merged(&scratch).args(["tar", "create", "-q", "a.tar", "top.img:/."]));
    std::fs::create_dir(scratch.join("unpacked")).expect("a directory");
    succeed(&mut scratch.command("tar", "-xf a.tar -C unpacked --xattrs"));
    assert_same(&manifest("unpacked"), &wanted);
}

#[test]
fn a_layer_on_a_partition_is_selected_as_any() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("base/below", b"below");
    scratch.write("top/above", b"above");
    let make = "make-image base base.img --size 16M --partition-table gpt";
    succeed(scratch.tane().args(make.split(' ')));
    succeed(
        scratch
            .tane()
            .args("make-image top top.img --size 16M".split(' ')),
    );
    for layer in ["base.img", "base.img@1"] {
        let lower = ["--lower", layer];
        let ls = succeed(scratch.tane().args(lower).args(["ls", "top.img"]));
        assert_eq!(text(&ls.stdout), "above\nbelow\nlost+found\n");
    }
    let failed = exit(
        scratch
            .tane()
            .args(["--lower", "base.img@7", "ls", "top.img"]),
        3,
    );
    assert!(text(&failed.stderr).contains("base.img: no such file system"));
    let failed = exit(
        scratch
            .tane()
            .args(["--lower", "none.img", "ls", "top.img"]),
        3,
    );
    assert!(text(&failed.stderr).contains("none.img"));
}

#[test]
fn what_is_seen_as_one_is_not_written() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    for layer in ["base", "top"] {
        scratch.write(&format!("{layer}/{layer}"), b"x");
        scratch.ext4(&format!("{layer}.img"), Some(&scratch.join(layer)), 8);
    }
    scratch.ext4("other.img", None, 8);
    for refused in [
        &["rm", "top.img:/base"][..],
        &["cp", "base/base", "top.img:/new"],
        &["cp", "top.img:/base", "top.img:/new"],
        &["fsck", "top.img"],
    ] {
        let mut tane = scratch.tane();
        let failed = exit(tane.args(["--lower", "base.img"]).args(refused), 2);
        assert!(text(&failed.stderr).contains("--lower"), "{refused:?}");
    }
    // To another image it may be copied.
    let mut cp = scratch.tane();
    succeed(cp.args([
        "--lower",
        "base.img",
        "cp",
        "-q",
        "top.img:/base",
        "other.img:/",
    ]));
    let cat = succeed(scratch.tane().args(["cat", "other.img:/base"]));
    assert_eq!(text(&cat.stdout), "x");
}

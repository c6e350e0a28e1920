//! Every type of disk image the default kernel only reads: made by the host's own
//! tool from a rich tree, which is read back here as the host has it.

mod common;
mod inside;
mod medium;
mod roundtrip;

use common::TempDir;
use inside::{complaints, default_kernel, run};
use roundtrip::keeps::{Keeps, Names, ALL, FILES};
use roundtrip::manifest::{assert_same, manifest};
use roundtrip::{as_we_may, rich, Tool, TOP};
use std::path::{Path, PathBuf};
use tane::{DiskOptions, Kernel, MountOptions};
use tane_test_support::tool;

/// `{image}` and `{dir}` stand for the two in the tool's arguments.
fn is_read_whole(fstype: &str, options: &str, (package, name, args): Tool, keeps: Keeps) {
    let dir = TempDir::new();
    let keeps = as_we_may(keeps);
    let Some(mut tool) = tool(package, name) else {
        return;
    };
    let source = dir.path().join("source");
    std::fs::create_dir(&source).expect("a directory");
    let source_tree = Kernel::host().tree(&source).expect("the directory");
    rich::fill(&source_tree, &keeps);
    let image = dir.path().join("image");
    let word = |arg: &&str| match *arg {
        "{image}" => image.clone(),
        "{dir}" => source.clone(),
        word => PathBuf::from(word),
    };
    run(tool.args(args.iter().map(word)));
    let wanted = manifest(&source_tree, TOP, &keeps);
    let Some(kernel) = default_kernel() else {
        return;
    };
    let mut read_only = DiskOptions::new();
    let disk = kernel.open_disk(&image, read_only.read_only(true));
    let disk = disk.expect("opens");
    let mut mount_options = MountOptions::new();
    mount_options
        .fstype(fstype)
        .options(options)
        .read_only(true);
    let mount = mount_options.mount(&kernel, disk.device());
    let mount = mount.unwrap_or_else(|e| panic!("{e}\n{}", kernel.dmesg()));
    assert_same(&wanted, &manifest(&mount, TOP, &keeps));
    let refused = mount.write(Path::new(TOP).join("new"), b"");
    let refused = refused.expect_err("is read-only");
    assert_eq!(refused.errno(), libc::EROFS);
    mount.unmount().expect("unmounts");
    assert_eq!(complaints(&kernel.dmesg()), [""; 0]);
}

/// Holes are not looked for in what is written once.
const WHOLE: Keeps = Keeps {
    holes: false,
    ..ALL
};

#[test]
fn squashfs() {
    for compression in ["gzip", "xz", "lz4", "zstd", "lzo"] {
        let args = [
            "{dir}",
            "{image}",
            "-noappend",
            "-quiet",
            "-no-progress",
            "-comp",
            compression,
        ];
        let args: &'static [&str] = Box::leak(Box::new(args));
        let keeps = Keeps {
            times: 1_000_000_000,
            acls: false,
            ..WHOLE
        };
        is_read_whole(
            "squashfs",
            "",
            ("squashfs-tools", "mksquashfs", args),
            keeps,
        );
    }
}

#[test]
fn erofs() {
    for args in [
        &["{image}", "{dir}"][..],
        &["-zlz4", "{image}", "{dir}"],
        &[
            "-zlz4hc",
            "-C65536",
            "-Eztailpacking,fragments,dedupe",
            "{image}",
            "{dir}",
        ],
    ] {
        let keeps = Keeps {
            name_max: 254, // mkfs.erofs 1.5 drops the last of 255 bytes
            ..WHOLE
        };
        is_read_whole("erofs", "", ("erofs-utils", "mkfs.erofs", args), keeps);
    }
}

#[test]
fn rock_ridge() {
    let args = &["-quiet", "-R", "-D", "-o", "{image}", "{dir}"];
    let keeps = Keeps {
        names: Names::Windows,
        name_max: 240,
        times: 1_000_000_000,
        symlinks: Some(400),
        devices: Some(255),
        hard_links: false, // each name has an inode of its own
        xattrs: None,
        acls: false,
        ..WHOLE
    };
    is_read_whole("iso9660", "", ("genisoimage", "genisoimage", args), keeps);
}

#[test]
fn rock_ridge_with_zisofs() {
    let args = &[
        "-outdev",
        "{image}",
        "-map",
        "{dir}",
        "/",
        "-set_filter_r",
        "--zisofs",
        "/",
        "--",
    ];
    let keeps = Keeps {
        names: Names::Windows,
        name_max: 240,
        times: 1_000_000_000,
        symlinks: Some(200),
        devices: Some(255),
        hard_links: false,
        xattrs: None,
        acls: false,
        ..WHOLE
    };
    is_read_whole("iso9660", "", ("xorriso", "xorriso", args), keeps);
}

#[test]
fn joliet() {
    let args = &[
        "-quiet",
        "-J",
        "-joliet-long",
        "-input-charset",
        "utf-8",
        "-D",
        "-o",
        "{image}",
        "{dir}",
    ];
    let keeps = Keeps {
        name_max: 100,
        ..FILES
    };
    is_read_whole(
        "iso9660",
        "iocharset=utf8",
        ("genisoimage", "genisoimage", args),
        keeps,
    );
}

#[test]
fn udf_bridge() {
    let args = &[
        "-quiet",
        "-udf",
        "-input-charset",
        "utf-8",
        "-D",
        "-o",
        "{image}",
        "{dir}",
    ];
    let keeps = Keeps {
        name_max: 100,
        ..FILES
    };
    is_read_whole(
        "udf",
        "iocharset=utf8",
        ("genisoimage", "genisoimage", args),
        keeps,
    );
}

#[test]
fn cramfs() {
    let keeps = Keeps {
        name_max: 250,
        times: u64::MAX,
        owners: Some(255),
        devices: Some(255),
        hard_links: false,
        xattrs: None,
        acls: false,
        ..WHOLE
    };
    let args = &["{dir}", "{image}"];
    is_read_whole("cramfs", "", ("util-linux", "mkfs.cramfs", args), keeps);
}

#[test]
fn romfs() {
    let keeps = Keeps {
        name_max: 120,
        times: u64::MAX,
        link_counts: false,
        owners: None,
        devices: Some(255),
        xattrs: None,
        acls: false,
        ..WHOLE
    };
    let args = &["-d", "{dir}", "-f", "{image}"];
    is_read_whole("romfs", "", ("genromfs", "genromfs", args), keeps);
}

//! Every type of disk image the default kernel only reads: made by the host's own
//! tool from a rich tree, which is read back here as the host has it.

use crate::common::TempDir;
use crate::inside::{complaints, default_kernel, run};
use crate::roundtrip::keeps::{Keeps, Names, ALL, FILES};
use crate::roundtrip::manifest::{assert_same, manifest};
use crate::roundtrip::readers::{any, printable, Reader, Unpack, SEVEN_ZIP};
use crate::roundtrip::{as_we_may, check, rich, Tool, TOP};
use std::path::{Path, PathBuf};
use tane::{DiskOptions, Kernel, MountOptions};
use tane_test_support::tool;

/// `{image}` and `{dir}` stand for the two in the tool's arguments.
struct ReadOnly {
    fstype: &'static str,
    options: &'static str,
    mkfs: Tool,
    /// Must find nothing to complain of.
    fsck: &'static [Tool],
    readers: Vec<Reader>,
    keeps: Keeps,
}

impl ReadOnly {
    fn is_read_whole(&self) {
        let dir = TempDir::new();
        let keeps = as_we_may(self.keeps);
        let (package, name, args) = self.mkfs;
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
        check(&image, self.fsck);
        for reader in &self.readers {
            reader.agrees(&dir, &image, &wanted);
        }
        let Some(kernel) = default_kernel() else {
            return;
        };
        let mut read_only = DiskOptions::new();
        let disk = kernel.open_disk(&image, read_only.read_only(true));
        let disk = disk.expect("opens");
        let mut mount_options = MountOptions::new();
        mount_options
            .fstype(self.fstype)
            .options(self.options)
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
}

/// Unpacks all, by the tool that belongs to the one which made it.
const fn unpack(
    package: &'static str,
    name: &'static str,
    args: &'static [&'static str],
) -> Reader {
    Reader::Unpack(Unpack {
        package,
        name,
        args,
        below: "out",
        knows: any,
        status: true,
    })
}

const XORRISO: Reader = unpack(
    "xorriso",
    "xorriso",
    &[
        "-indev", "{image}", "-osirrox", "on", "-extract", "/", "out",
    ],
);

/// Of the two file systems the second.
const SEVEN_ZIP_UDF: Reader = Reader::Unpack(Unpack {
    package: "p7zip-full",
    name: "7z",
    args: &["x", "-y", "-bd", "-snl-", "-tudf", "{image}"],
    below: "",
    knows: printable,
    status: true,
});

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
        ReadOnly {
            fstype: "squashfs",
            options: "",
            mkfs: ("squashfs-tools", "mksquashfs", args),
            fsck: &[],
            readers: vec![unpack(
                "squashfs-tools",
                "unsquashfs",
                &["-quiet", "-no-progress", "-d", "out", "{image}"],
            )],
            keeps,
        }
        .is_read_whole();
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
        ReadOnly {
            fstype: "erofs",
            options: "",
            mkfs: ("erofs-utils", "mkfs.erofs", args),
            fsck: &[("erofs-utils", "fsck.erofs", &[])],
            readers: vec![unpack(
                "erofs-utils",
                "fsck.erofs",
                &["--extract=out", "{image}"],
            )],
            keeps,
        }
        .is_read_whole();
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
    ReadOnly {
        fstype: "iso9660",
        options: "",
        mkfs: ("genisoimage", "genisoimage", args),
        fsck: &[],
        readers: vec![
            XORRISO,
            Reader::Cat(
                "genisoimage",
                "isoinfo",
                &["-i", "{image}", "-R", "-x", "{file}"],
            ),
            Reader::Grub,
        ],
        keeps,
    }
    .is_read_whole();
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
    ReadOnly {
        fstype: "iso9660",
        options: "",
        mkfs: ("xorriso", "xorriso", args),
        fsck: &[],
        readers: vec![XORRISO],
        keeps,
    }
    .is_read_whole();
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
    ReadOnly {
        fstype: "iso9660",
        options: "iocharset=utf8",
        mkfs: ("genisoimage", "genisoimage", args),
        fsck: &[],
        readers: vec![
            SEVEN_ZIP,
            Reader::Cat(
                "genisoimage",
                "isoinfo",
                &["-i", "{image}", "-J", "-x", "{file}"],
            ),
            Reader::Grub,
        ],
        keeps,
    }
    .is_read_whole();
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
    ReadOnly {
        fstype: "udf",
        options: "iocharset=utf8",
        mkfs: ("genisoimage", "genisoimage", args),
        fsck: &[],
        readers: vec![SEVEN_ZIP_UDF],
        keeps,
    }
    .is_read_whole();
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
    ReadOnly {
        fstype: "cramfs",
        options: "",
        mkfs: ("util-linux", "mkfs.cramfs", args),
        fsck: &[("util-linux", "fsck.cramfs", &[])],
        readers: vec![unpack(
            "util-linux",
            "fsck.cramfs",
            &["--extract=out", "{image}"],
        )],
        keeps,
    }
    .is_read_whole();
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
    ReadOnly {
        fstype: "romfs",
        options: "",
        mkfs: ("genromfs", "genromfs", args),
        fsck: &[],
        readers: vec![Reader::Grub],
        keeps,
    }
    .is_read_whole();
}

/// Its dialect is found, and told to Linux.
fn ufs_1(args: &'static [&'static str], readers: Vec<Reader>) {
    let keeps = Keeps {
        times: 1_000_000_000,
        owners: Some(65535),
        devices: None, // makefs leaves out sockets
        symlinks: Some(400),
        xattrs: None,
        acls: false,
        ..WHOLE
    };
    ReadOnly {
        fstype: "ufs",
        options: "",
        mkfs: ("makefs", "makefs", args),
        fsck: &[],
        readers,
        keeps,
    }
    .is_read_whole();
}

#[test]
fn ufs() {
    let args = &["-t", "ffs", "-o", "version=1", "{image}", "{dir}"];
    ufs_1(args, vec![Reader::Grub]);
}

#[test]
fn ufs_in_the_other_order_of_bytes() {
    let args = &[
        "-t",
        "ffs",
        "-B",
        "be",
        "-o",
        "version=1",
        "{image}",
        "{dir}",
    ];
    ufs_1(args, Vec::new());
}

//! Every type of disk image the default kernel writes: made by the type's own
//! mkfs, a rich tree written here, clean in the eyes of the type's own fsck, read
//! back the same here and by programs that share no code with Linux.

use crate::inside::default_kernel;
use crate::roundtrip::keeps::{Keeps, Names, ALL, FILES};
use crate::roundtrip::readers::{Reader, BTRFS_RESTORE, DEBUGFS, MTOOLS, SEVEN_ZIP, SEVEN_ZIP_HFS};
use crate::roundtrip::{tmpfs, Empty, Tool, Writable};

const E2FSCK: &[Tool] = &[("e2fsprogs", "e2fsck", &["-fn"])];

fn ext(fstype: &'static str, name: &'static str) -> Writable {
    Writable {
        fstype,
        mib: 64,
        mkfs: Empty::Mkfs(("e2fsprogs", name, &["-q", "-F"])),
        options: "",
        fsck: E2FSCK,
        readers: &[DEBUGFS, SEVEN_ZIP, Reader::Grub],
        keeps: Keeps {
            xattrs: Some(600), // all of a file's in one block of 1 KiB
            ..ALL
        },
    }
}

#[test]
fn ext2() {
    ext("ext2", "mkfs.ext2").keeps_a_rich_tree();
}

#[test]
fn ext3() {
    ext("ext3", "mkfs.ext3").keeps_a_rich_tree();
}

#[test]
fn ext4() {
    ext("ext4", "mkfs.ext4").keeps_a_rich_tree();
}

#[test]
fn xfs() {
    let kind = Writable {
        fstype: "xfs",
        mib: 320, // mkfs makes none below 300
        mkfs: Empty::Mkfs(("xfsprogs", "mkfs.xfs", &["-q", "-f"])),
        options: "",
        fsck: &[("xfsprogs", "xfs_repair", &["-n"])],
        readers: &[Reader::Grub],
        keeps: ALL,
    };
    kind.keeps_a_rich_tree();
}

fn btrfs_with(options: &'static str) {
    let kind = Writable {
        fstype: "btrfs",
        mib: 200,
        mkfs: Empty::Mkfs(("btrfs-progs", "mkfs.btrfs", &["-q", "-f"])),
        options,
        fsck: &[("btrfs-progs", "btrfs", &["check", "--check-data-csum"])],
        readers: &[BTRFS_RESTORE, Reader::Grub],
        keeps: ALL,
    };
    kind.keeps_a_rich_tree();
}

#[test]
fn btrfs() {
    btrfs_with("");
}

#[test]
fn btrfs_compressed() {
    for compression in ["zstd", "lzo", "zlib"] {
        btrfs_with(match compression {
            "zstd" => "compress-force=zstd",
            "lzo" => "compress-force=lzo",
            _ => "compress-force=zlib",
        });
    }
}

#[test]
fn f2fs() {
    let kind = Writable {
        fstype: "f2fs",
        mib: 128,
        mkfs: Empty::Mkfs(("f2fs-tools", "mkfs.f2fs", &["-q", "-f"])),
        options: "",
        fsck: &[("f2fs-tools", "fsck.f2fs", &["-f", "--dry-run"])],
        readers: &[Reader::Grub],
        keeps: ALL,
    };
    kind.keeps_a_rich_tree();
}

#[test]
fn vfat() {
    for (mib, bits) in [(15, "12"), (32, "16"), (64, "32")] {
        let args: &[&str] = match bits {
            "12" => &["-F", "12"],
            "16" => &["-F", "16"],
            _ => &["-F", "32", "-s", "1"],
        };
        let kind = Writable {
            fstype: "vfat",
            mib,
            mkfs: Empty::Mkfs(("dosfstools", "mkfs.vfat", args)),
            options: "",
            fsck: &[("dosfstools", "fsck.vfat", &["-n"])],
            readers: &[MTOOLS, SEVEN_ZIP, Reader::Grub],
            keeps: FILES,
        };
        kind.keeps_a_rich_tree();
    }
}

#[test]
fn exfat() {
    let kind = Writable {
        fstype: "exfat",
        mib: 32,
        mkfs: Empty::Mkfs(("exfatprogs", "mkfs.exfat", &[])),
        options: "",
        fsck: &[("exfatprogs", "fsck.exfat", &["-n"])],
        readers: &[Reader::Grub],
        keeps: Keeps {
            times: 10_000_000,
            // What was on the disk before is there again: exfat_file_write_iter()
            // looks at the position before O_APPEND has set it.
            appends_to_holes: false,
            ..FILES
        },
    };
    kind.keeps_a_rich_tree();
}

#[test]
fn ntfs3() {
    let kind = Writable {
        fstype: "ntfs3",
        mib: 64,
        mkfs: Empty::Mkfs(("ntfs-3g", "mkntfs", &["-F", "-Q", "-q"])),
        options: "acl,iocharset=utf8",
        fsck: &[("ntfs-3g", "ntfsfix", &["-n"])],
        readers: &[
            SEVEN_ZIP,
            Reader::Grub,
            Reader::Cat("ntfs-3g", "ntfscat", &["-f", "{image}", "{file}"]),
        ],
        keeps: Keeps {
            names: Names::Unicode,
            times: 100,
            // Linux writes them as $LXDEV and reads them as $$LXDEV.
            device_numbers: false,
            // It keeps them, but not the mode that comes of them.
            acls: false,
            holes: false,
            punches: false,
            ..ALL
        },
    };
    kind.keeps_a_rich_tree();
}

#[test]
fn hfsplus() {
    let kind = Writable {
        fstype: "hfsplus",
        mib: 64,
        mkfs: Empty::Ours(crate::hfsplus::make),
        options: "",
        fsck: &[], // Debian has none
        readers: &[SEVEN_ZIP_HFS, Reader::GrubWithoutLinks],
        keeps: Keeps {
            names: Names::Plane,
            times: 1_000_000_000,
            acls: false,
            holes: false,
            punches: false,
            ..ALL
        },
    };
    kind.keeps_a_rich_tree();
}

/// Linux gives each file it makes there Finder information.
#[test]
fn attributes_of_hfsplus_have_their_whole_names() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let dir = crate::common::TempDir::new();
    let image = dir.path().join("hfs.img");
    std::fs::write(&image, crate::hfsplus::make(64)).expect("an image");
    let disk = kernel.open_disk(&image, &tane::DiskOptions::new());
    let disk = disk.expect("a disk");
    let mount = tane::MountOptions::new().mount(&kernel, disk.device());
    let mount = mount.expect("a mount");
    mount.write("f", b"data").expect("writes");
    let names = mount.xattrs("f").expect("lists");
    assert_eq!(names, ["osx.com.apple.FinderInfo"]);
    let value = mount.xattr("f", &names[0]).expect("reads");
    assert_eq!(value.map(|value| value.len()), Some(32));
}

#[test]
fn udf() {
    for args in [&["-m", "hd", "-b", "512"], &["-m", "hd", "-b", "2048"]] {
        let kind = Writable {
            fstype: "udf",
            mib: 64,
            mkfs: Empty::Mkfs(("udftools", "mkudffs", args)),
            options: "iocharset=utf8",
            fsck: &[("udftools", "udfinfo", &[])], // it reads no more than the volume
            readers: &[Reader::Grub],
            keeps: Keeps {
                names: Names::Unicode,
                name_max: 254,
                times: 1000,
                devices: Some(255),
                symlinks: Some(200), // a block of 512 bytes, in which each ".." takes 4
                xattrs: None,
                acls: false,
                punches: false,
                ..ALL
            },
        };
        kind.keeps_a_rich_tree();
    }
}

#[test]
fn jfs() {
    let kind = Writable {
        fstype: "jfs",
        mib: 64,
        mkfs: Empty::Mkfs(("jfsutils", "mkfs.jfs", &["-q"])),
        options: "",
        fsck: &[("jfsutils", "jfs_fsck", &["-f", "-n"])],
        readers: &[Reader::Grub],
        keeps: Keeps {
            punches: false,
            ..ALL
        },
    };
    kind.keeps_a_rich_tree();
}

#[test]
fn reiserfs() {
    let kind = Writable {
        fstype: "reiserfs",
        mib: 64,
        mkfs: Empty::Mkfs(("reiserfsprogs", "mkreiserfs", &["-q", "-f", "-f"])),
        options: "",
        fsck: &[("reiserfsprogs", "reiserfsck", &["--check", "-y", "-q"])],
        readers: &[Reader::Grub],
        keeps: Keeps {
            times: 1_000_000_000,
            acls: false, // Linux lists them by chance, see docs/filesystems.md
            punches: false,
            ..ALL
        },
    };
    kind.keeps_a_rich_tree();
}

#[test]
fn ocfs2() {
    let kind = Writable {
        fstype: "ocfs2",
        mib: 136,
        mkfs: Empty::Mkfs((
            "ocfs2-tools",
            "mkfs.ocfs2",
            &[
                "-q",
                "-Mlocal",
                "-N1",
                "--fs-features=sparse,unwritten,xattr",
            ],
        )),
        options: "",
        fsck: &[("ocfs2-tools", "fsck.ocfs2", &["-fn"])],
        readers: &[],
        keeps: ALL,
    };
    kind.keeps_a_rich_tree();
}

#[test]
fn nilfs2() {
    let kind = Writable {
        fstype: "nilfs2",
        mib: 136,
        mkfs: Empty::Mkfs(("nilfs-tools", "mkfs.nilfs2", &["-q", "-f"])),
        options: "",
        fsck: &[], // there is none
        readers: &[Reader::Grub],
        keeps: Keeps {
            xattrs: None,
            acls: false,
            punches: false,
            ..ALL
        },
    };
    kind.keeps_a_rich_tree();
}

#[test]
fn minix() {
    for version in [1, 2, 3] {
        let (args, name_max): (&[&str], _) = match version {
            1 => (&["-1"], 30),
            2 => (&["-2"], 30),
            _ => (&["-3"], 60),
        };
        let kind = Writable {
            fstype: "minix",
            mib: 32,
            mkfs: Empty::Mkfs(("util-linux", "mkfs.minix", args)),
            options: "",
            fsck: &[("util-linux", "fsck.minix", &["-f"])],
            readers: &[Reader::Grub],
            keeps: Keeps {
                name_max,
                times: 1_000_000_000,
                owners: Some(255),
                devices: Some(255),
                xattrs: None,
                acls: false,
                holes: false, // it counts blocks from the size
                punches: false,
                ..ALL
            },
        };
        kind.keeps_a_rich_tree();
    }
}

#[test]
fn tmpfs_with_extended_attributes() {
    let Some(kernel) = default_kernel() else {
        return;
    };
    let tmpfs = tmpfs(&kernel);
    tmpfs.write("f", "content").expect("writes");
    for key in ["user.colour", "trusted.colour", "security.colour"] {
        tmpfs.set_xattr("f", key, b"blue", 0).expect("sets");
        let value = tmpfs.xattr("f", key).expect("reads");
        assert_eq!(value.as_deref(), Some(&b"blue"[..]), "{key}");
    }
    tmpfs.remove_xattr("f", "user.colour").expect("removes");
    assert_eq!(tmpfs.xattr("f", "user.colour").expect("reads"), None);
    assert_eq!(tmpfs.xattrs("f").expect("lists").len(), 2);
}

//! Damaged images of every file system of the default kernel: whatever they hold,
//! each call on them ends, with success or with an error, and the caller lives. And
//! the images that other projects test their tools with.
//! docs/hostile.md has the results of a long run.

mod common;
mod exercise;
mod hostile;
mod inside;
mod medium;

use hostile::kinds::{self, Kind};
use std::path::PathBuf;

macro_rules! file_systems {
    ($($name:ident: $kinds:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                if inside::image("default").is_some() {
                    hostile::hunt(stringify!($name));
                }
            }
        )+

        fn kinds_of(name: &str) -> &'static [Kind] {
            match name {
                $(stringify!($name) => &kinds::$kinds,)+
                _ => panic!("no file system {name}"),
            }
        }
    };
}

file_systems! {
    ext2: EXT2,
    ext3: EXT3,
    ext4: EXT4,
    xfs: XFS,
    btrfs: BTRFS,
    f2fs: F2FS,
    vfat: VFAT,
    exfat: EXFAT,
    ntfs3: NTFS3,
    hfsplus: HFSPLUS,
    jfs: JFS,
    nilfs2: NILFS2,
    udf: UDF,
    minix: MINIX,
    reiserfs: REISERFS,
    ocfs2: OCFS2,
    ufs: UFS,
    squashfs: SQUASHFS,
    erofs: EROFS,
    iso9660: ISO9660,
    cramfs: CRAMFS,
    romfs: ROMFS,
}

macro_rules! packages {
    ($($test:ident: $package:literal),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                if inside::image("default").is_some() {
                    hostile::hunt_foreign($package);
                }
            }
        )+

        const PACKAGES: &[&str] = &[$($package),+];
    };
}

packages! {
    images_of_e2fsprogs: "e2fsprogs",
    images_of_btrfs_progs: "btrfs-progs",
    images_of_util_linux: "util-linux",
    images_of_dosfstools: "dosfstools",
}

#[test]
#[ignore = "a part of the others, in a process of its own"]
fn worker() {
    let order = std::env::var("TANE_HOSTILE_WORKER").expect("what to do");
    let dir = std::env::var_os("TANE_HOSTILE_WORKER_DIR").expect("where");
    let words: Vec<&str> = order.split(' ').collect();
    let [name, first, end] = words[..] else {
        panic!("{order}")
    };
    let [first, end] = [first, end].map(|n| n.parse().expect("a seed"));
    let dir = PathBuf::from(dir);
    if PACKAGES.contains(&name) {
        hostile::work_on_foreign(&dir, first..end);
    } else {
        hostile::work(&dir, kinds_of(name), first..end);
    }
}

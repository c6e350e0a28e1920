//! What a disk says of itself before it is mounted, with blkid(8) as the judge.

use crate::common::{blank, kernel, tool, TempDir};
use std::path::Path;
use tane::{DiskOptions, Kernel, MountOptions};

#[test]
fn label_and_uuid_are_those_of_blkid() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let tools: [(&str, &str, &[&str]); 6] = [
        ("e2fsprogs", "mkfs.ext2", &["-qF", "-L", "two"]),
        ("e2fsprogs", "mkfs.ext3", &["-qF"]),
        ("e2fsprogs", "mkfs.ext4", &["-qF", "-L", "some label"]),
        ("dosfstools", "mkfs.vfat", &["-F", "32", "-n", "LABEL"]),
        ("dosfstools", "mkfs.vfat", &["-F", "16", "-n", "LABEL"]),
        ("btrfs-progs", "mkfs.btrfs", &["-q", "-L", "b"]),
    ];
    for (i, (package, mkfs, arguments)) in tools.into_iter().enumerate() {
        if tane_test_support::tool(package, mkfs).is_none() {
            continue;
        }
        let image = blank(&dir, &i.to_string(), 128);
        tool(mkfs, arguments, &image);
        let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
        let found = disk.probe().unwrap().unwrap();
        let blkid = |tag: &str| {
            let text = tool("blkid", &["-p", "-s", tag, "-o", "value"], &image);
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        assert_eq!(Some(found.fstype), blkid("TYPE"), "{mkfs}");
        assert_eq!(found.label, blkid("LABEL"), "{mkfs}");
        assert_eq!(found.uuid, blkid("UUID"), "{mkfs}");
    }
}

/// What Technical Note 1150 asks of a volume whose catalog has a root folder.
fn hfsplus(image: &Path, name: &str) {
    const BLOCK: usize = 4096;
    let mut bytes = vec![0; 1 << 20];
    let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
    put(1024, b"H+\0\x04");
    put(1024 + 40, &(BLOCK as u32).to_be_bytes());
    put(1024 + 44, &256u32.to_be_bytes());
    // The catalog: one block at 5, then two at 9, with nodes of a block each.
    for (i, word) in [5u32, 1, 9, 2].into_iter().enumerate() {
        put(1024 + 288 + 4 * i, &word.to_be_bytes());
    }
    put(5 * BLOCK + 20, &1u32.to_be_bytes());
    put(5 * BLOCK + 24, &2u32.to_be_bytes());
    put(5 * BLOCK + 32, &(BLOCK as u16).to_be_bytes());
    let leaf = 10 * BLOCK;
    put(leaf + 8, &[0xff, 1, 0, 1]);
    let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_be_bytes).collect();
    put(leaf + 14, &(6 + name.len() as u16).to_be_bytes());
    put(leaf + 16, &1u32.to_be_bytes());
    put(leaf + 20, &(name.len() as u16 / 2).to_be_bytes());
    put(leaf + 22, &name);
    std::fs::write(image, bytes).unwrap();
}

#[test]
fn labels_that_lie_deep_in_an_image_are_those_of_blkid() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let label = "G\u{f6}\u{df}e \u{2260} 1";
    let check = |name: &str, image: &Path, label: Option<&str>| {
        let disk = kernel.open_disk(image, &DiskOptions::new()).unwrap();
        let found = disk.probe().unwrap().unwrap();
        let text = tool("blkid", &["-p", "-s", "LABEL", "-o", "value"], image);
        let blkid = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        assert_eq!(blkid.as_deref(), label, "{name}: what the test made");
        assert_eq!(found.label, blkid, "{name}");
    };
    let tools: [(&str, &str, &[&str]); 8] = [
        ("ntfs-3g", "mkfs.ntfs", &["-qFQ", "-L", label]),
        ("ntfs-3g", "mkfs.ntfs", &["-qFQ", "-c", "512", "-L", label]),
        ("ntfs-3g", "mkfs.ntfs", &["-qFQ"]),
        ("exfatprogs", "mkfs.exfat", &["-L", label]),
        ("exfatprogs", "mkfs.exfat", &["-c", "128K"]),
        ("udftools", "mkudffs", &["--utf8", "-l", label]),
        (
            "udftools",
            "mkudffs",
            &["--utf8", "-b", "512", "-l", "plain"],
        ),
        (
            "udftools",
            "mkudffs",
            &["--utf8", "-b", "4096", "-l", label],
        ),
    ];
    for (i, (package, mkfs, arguments)) in tools.into_iter().enumerate() {
        if tane_test_support::tool(package, mkfs).is_none() {
            continue;
        }
        let image = blank(&dir, &i.to_string(), 64);
        tool(mkfs, arguments, &image);
        let given = [label, "plain"].into_iter().find(|l| arguments.contains(l));
        check(&format!("{mkfs} {arguments:?}"), &image, given);
    }
    let image = dir.path().join("hfsplus");
    hfsplus(&image, label);
    check("HFS+", &image, Some(label));
}

#[test]
fn kinds_with_marks_of_few_bytes_are_what_blkid_takes_them_for() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let tools: [(&str, &str, &[&str]); 7] = [
        ("jfsutils", "mkfs.jfs", &["-q", "-L", "mine"]),
        ("nilfs-tools", "mkfs.nilfs2", &["-q", "-L", "mine"]),
        ("util-linux", "mkfs.minix", &["-3"]),
        ("util-linux", "mkfs.minix", &["-2"]),
        ("util-linux", "mkfs.minix", &["-2", "-n", "14"]),
        ("util-linux", "mkfs.minix", &["-1"]),
        ("util-linux", "mkfs.minix", &["-1", "-n", "14"]),
    ];
    agree_with_blkid(&kernel, &dir, &tools);
}

/// What each of these makes is for us what it is for blkid, and mounted but for gfs2.
fn agree_with_blkid(kernel: &Kernel, dir: &TempDir, tools: &[(&str, &str, &[&str])]) {
    for (i, (package, mkfs, arguments)) in tools.iter().enumerate() {
        if tane_test_support::tool(package, mkfs).is_none() {
            continue;
        }
        let image = blank(dir, &i.to_string(), 136);
        tool(mkfs, arguments, &image);
        let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
        let found = disk.probe().unwrap().expect(mkfs);
        let blkid = |tag| {
            let text = tool("blkid", &["-p", "-s", tag, "-o", "value"], &image);
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let what = format!("{mkfs} {arguments:?}");
        assert_eq!(found.is_mountable(), *mkfs != "mkfs.gfs2", "{what}");
        assert_eq!(Some(found.fstype), blkid("TYPE"), "{what}");
        assert_eq!(found.label, blkid("LABEL"), "{what}");
        assert_eq!(found.uuid, blkid("UUID"), "{what}");
    }
}

fn write_marks(path: &Path, marks: &[(u64, &[u8])]) {
    use std::os::unix::fs::FileExt;
    let image = std::fs::File::create(path).expect("a file");
    image.set_len(4 << 20).expect("its size");
    for (at, mark) in marks {
        image.write_all_at(mark, *at).expect("a mark");
    }
}

#[test]
fn kinds_of_other_systems_and_times_are_what_blkid_takes_them_for() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let tools: [(&str, &str, &[&str]); 6] = [
        ("hfsutils", "hformat", &["-l", "mine"]),
        (
            "reiserfsprogs",
            "mkreiserfs",
            &["-q", "-f", "-f", "-l", "mine"],
        ),
        (
            "gfs2-utils",
            "mkfs.gfs2",
            &["-O", "-q", "-j1", "-J8", "-plock_nolock"],
        ),
        (
            "gfs2-utils",
            "mkfs.gfs2",
            &["-O", "-q", "-j1", "-J8", "-tone:two"],
        ),
        (
            "ocfs2-tools",
            "mkfs.ocfs2",
            &["-q", "-Mlocal", "-b1K", "-Lmine"],
        ),
        (
            "ocfs2-tools",
            "mkfs.ocfs2",
            &["-q", "-Mlocal", "-b4K", "-N1"],
        ),
    ];
    agree_with_blkid(&kernel, &dir, &tools);
}

/// The boot sector of a FAT, which others begin with too.
fn fat_like(name: &[u8; 8]) -> Vec<u8> {
    let mut boot = vec![0; 512];
    boot[..3].copy_from_slice(b"\xeb\x58\x90");
    boot[11..24].copy_from_slice(&[0, 2, 1, 1, 0, 2, 224, 0, 0x40, 0x0b, 0xf0, 9, 0]);
    boot[54..62].copy_from_slice(name);
    boot[510..].copy_from_slice(b"\x55\xaa");
    boot
}

#[test]
fn what_linux_cannot_mount_is_named_for_what_it_is() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let of_os2 = fat_like(b"HPFS    ");
    let sealed = [b"\xeb\x58\x90-FVE-FS-", &fat_like(b"FAT32   ")[11..]].concat();
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    let blocks = [128u64, 129, 130, 131].map(|kib| (kib << 10, &uberblock[..]));
    // Who knows it not is asked for no name.
    type Marks<'a> = &'a [(u64, &'a [u8])];
    let marks: [(&str, Marks, Option<&str>); 14] = [
        ("BitLocker", &[(0, &sealed)], None),
        ("apfs", &[(32, b"NXSB")], None),
        ("zfs_member", &blocks, None),
        (
            "VMFS_volume_member",
            &[(1 << 20, b"\x0d\xd0\x01\xc0")],
            Some("VMFS_volume_member"),
        ),
        ("VMFS", &[(2 << 20, b"\x5e\xf1\xab\x2f")], Some("VMFS")),
        ("LVM1_member", &[(0, b"HM\x01\0")], None),
        ("ReFS", &[(3, b"ReFS\0\0\0\0")], Some("ReFS")),
        (
            "swap",
            &[(8182, b"SWAPSPACE2"), (1024, b"\x01\0\0\0\x07")],
            None,
        ),
        ("suspend", &[(4086, b"S1SUSPEND")], None),
        ("reiser4", &[(0x10000, b"ReIsEr4")], Some("reiser4")),
        ("UBI", &[(0, b"UBI#")], None),
        ("ubifs", &[(0, b"\x31\x18\x10\x06")], Some("ubifs")),
        ("jffs2", &[(0, b"\x85\x19\x03\x20")], None),
        (
            "hpfs",
            &[(0, &of_os2), (8192, b"\x49\xe8\x95\xf9\xc5\xe9\x53\xfa")],
            None,
        ),
    ];
    for (name, marks, blkid) in marks {
        let image = dir.path().join(name);
        write_marks(&image, marks);
        let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
        let found = disk.probe().unwrap().expect(name);
        assert_eq!(found.fstype, name);
        assert_eq!(found.is_mountable(), name == "hpfs", "{name}");
        if let Some(wanted) = blkid {
            let text = tool("blkid", &["-p", "-s", "TYPE", "-o", "value"], &image);
            assert_eq!(text.trim(), wanted);
        }
        let refused = MountOptions::new()
            .read_only(true)
            .mount(&kernel, disk.device());
        let said = refused.expect_err(name).to_string();
        assert!(
            name == "hpfs" || said.contains("(os error 19): is "),
            "{said}"
        );
    }
}

#[test]
fn a_boot_sector_of_nonsense_is_no_fat() {
    let dir = TempDir::new();
    let Some(kernel) = kernel() else { return };
    let mut nonsense = fat_like(b"FAT16   ");
    nonsense[16] = 0;
    let image = dir.path().join("image");
    write_marks(&image, &[(0, &nonsense)]);
    let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
    assert_eq!(disk.probe().unwrap(), None);
    drop(disk);
    // An old one has no name for itself.
    let mut old = fat_like(&[0; 8]);
    old[0] = 0xeb;
    write_marks(&image, &[(0, &old)]);
    let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
    let found = disk.probe().unwrap().expect("a FAT");
    assert_eq!(found.fstype, "vfat");
    assert_eq!(
        tool("blkid", &["-p", "-s", "TYPE", "-o", "value"], &image).trim(),
        "vfat"
    );
}

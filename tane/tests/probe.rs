//! What a disk says of itself before it is mounted, with blkid(8) as the judge.

mod common;

use common::{blank, kernel, tool, TempDir};
use std::path::Path;
use tane::DiskOptions;

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
    for (i, (package, mkfs, arguments)) in tools.into_iter().enumerate() {
        if tane_test_support::tool(package, mkfs).is_none() {
            continue;
        }
        let image = blank(&dir, &i.to_string(), 136);
        tool(mkfs, arguments, &image);
        let disk = kernel.open_disk(&image, &DiskOptions::new()).unwrap();
        let found = disk.probe().unwrap().expect(mkfs);
        let blkid = |tag| {
            let text = tool("blkid", &["-p", "-s", tag, "-o", "value"], &image);
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let what = format!("{mkfs} {arguments:?}");
        assert_eq!(Some(found.fstype), blkid("TYPE"), "{what}");
        assert_eq!(found.label, blkid("LABEL"), "{what}");
        assert_eq!(found.uuid, blkid("UUID"), "{what}");
    }
}

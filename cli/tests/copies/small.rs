//! Promises about many small files: the host reads them from the image's file, many
//! at once, and what comes out is what went in, however they lie. mke2fs makes the
//! images, and the tree that it read is what is compared.

use crate::common::*;
use std::path::PathBuf;

/// Files of many sizes in some directories, with an empty one, a hard link, and one
/// that is a hole for the most part. Bytes of those that lie in one piece.
fn tree(s: &Scratch) -> u64 {
    let mut state = 1u32;
    let mut total = 0;
    for i in 0..900usize {
        let len = if i % 30 == 0 { 0 } else { i * 37 % 9000 + 1 };
        let data: Vec<u8> = (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        total += len as u64;
        s.write(&format!("tree/{}/{i}", i % 7), &data);
    }
    let file = std::fs::File::create(s.join("tree/hole")).expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, b"end", 50_000).expect("written");
    std::fs::hard_link(s.join("tree/1/1"), s.join("tree/second name")).expect("a link");
    total
}

/// An image full of junk but for what mke2fs writes: bytes of a block that is read
/// and should not be are seen.
fn image(s: &Scratch, options: &[&str]) -> PathBuf {
    let path = s.join("disk.img");
    std::fs::write(&path, vec![0x5a; 48 << 20]).expect("an image file");
    let mut mke2fs = sbin("mke2fs");
    mke2fs.args(["-q", "-F", "-E", "nodiscard", "-d"]);
    succeed(mke2fs.arg(s.join("tree")).args(options).arg(&path));
    path
}

/// Copies everything out and compares; how many bytes the host read.
fn copy_out(s: &Scratch, options: &[&str]) -> u64 {
    let mut command = s.tane();
    command.args(["cp", "-r", "--json"]).args(options);
    let said = succeed(command.args(["disk.img:/.", "out/"])).stdout;
    let _ = std::fs::remove_dir(s.join("out/lost+found"));
    let mut diff = std::process::Command::new("diff");
    succeed(
        diff.args(["-r", "--no-dereference"])
            .arg(s.join("tree"))
            .arg(s.join("out")),
    );
    std::fs::remove_dir_all(s.join("out")).expect("removed");
    let said: serde_json::Value = serde_json::from_slice(&said).expect("JSON");
    said["bytes_by_host"].as_u64().expect("a number")
}

#[test]
fn small_files_are_read_by_the_host_and_come_out_whole() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let total = tree(&s);
    for options in [
        &["-t", "ext4"][..],
        &["-t", "ext4", "-b", "1024"],
        &["-t", "ext4", "-O", "bigalloc"],
        &["-t", "ext4", "-O", "metadata_csum_seed,casefold"],
    ] {
        image(&s, options);
        let by_host = copy_out(&s, &[]);
        // All but the file with two names; some may lie in two pieces.
        assert!(by_host > total / 2, "{options:?}: {by_host} of {total}");
    }
}

#[test]
fn small_files_whose_bytes_are_elsewhere_come_out_whole_too() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    // In the inode; by lists of blocks; in a file system that has to replay.
    for options in [
        &["-t", "ext4", "-O", "inline_data", "-I", "1024"][..],
        &["-t", "ext2"],
        &["-t", "ext3", "-b", "1024"],
    ] {
        image(&s, options);
        copy_out(&s, &[]);
    }
}

#[test]
fn files_of_all_sizes_come_out_of_xfs_whole_and_by_the_host() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let total = tree(&s);
    let large: Vec<u8> = (0..5_000_001u32).map(|i| (i / 7 % 251) as u8).collect();
    s.write("tree/large", &large);
    let size = ["--fs", "xfs", "--size", "320M"];
    succeed(s.tane().args(["make-image", "tree", "disk.img"]).args(size));
    let by_host = copy_out(&s, &[]);
    let total = total + large.len() as u64;
    assert!(by_host > total / 2, "{by_host} of {total}");
}

#[test]
fn small_files_come_out_of_containers_and_into_archives_alike() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    image(&s, &["-t", "ext4"]);
    succeed(s.tane().args(["tar", "create", "all.tar", "disk.img:/"]));
    std::fs::create_dir(s.join("unpacked")).expect("a directory");
    let mut tar = std::process::Command::new("tar");
    succeed(
        tar.arg("-C")
            .arg(s.join("unpacked"))
            .arg("-xf")
            .arg(s.join("all.tar")),
    );
    let _ = std::fs::remove_dir(s.join("unpacked/lost+found"));
    let mut diff = std::process::Command::new("diff");
    succeed(diff.arg("-r").arg(s.join("tree")).arg(s.join("unpacked")));

    let convert = ["convert", "-O", "qcow2", "disk.img", "disk.qcow2"];
    succeed(s.tool("qemu-img").args(convert));
    std::fs::rename(s.join("disk.qcow2"), s.join("disk.img")).expect("renamed");
    assert_eq!(copy_out(&s, &[]), 0, "the host has no such bytes");
}

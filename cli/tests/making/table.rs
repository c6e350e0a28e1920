//! Promises of `tane make-image --partition-table`. Judges are sfdisk and sgdisk.

use crate::common::make::*;
use crate::common::*;
use std::path::Path;

/// The one partition, as sfdisk has it, after it found the table in order.
fn partition(image: &Path) -> serde_json::Value {
    let told = succeed(sbin("sfdisk").arg("-V").arg(image)).stdout;
    assert!(
        text(&told).contains("No errors detected"),
        "{}",
        text(&told)
    );
    let json = succeed(sbin("sfdisk").arg("--json").arg(image)).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let all = json["partitiontable"]["partitions"].as_array().cloned();
    let [one] = &all.expect("partitions")[..] else {
        panic!("{json}")
    };
    one.clone()
}

#[test]
fn equal_input_gives_equal_disks_with_either_table() {
    for (table, kind) in [
        ("gpt", "0FC63DAF-8483-4772-8E79-3D69D8477DE4"),
        ("mbr", "83"),
    ] {
        let option = format!("--partition-table={table}");
        let Some((scratch, a, b)) = make_twice_of("ext4", 0, &[&option]) else {
            return;
        };
        assert_equal(&a, &b);
        let one = partition(&a);
        assert_eq!(one["type"], kind, "{one}");
        assert_eq!(one["start"], 2048, "{one}");
        if table == "gpt" {
            let told = text(&succeed(sbin("sgdisk").arg("-v").arg(&a)).stdout);
            assert!(told.contains("No problems found"), "{told}");
        }
        // What e2fsck says of the partition alone.
        let file = std::fs::File::open(&a).expect("the image");
        let mut part = std::fs::File::create(scratch.join("part")).expect("a file");
        let size = one["size"].as_u64().expect("a size") * 512;
        let mut bytes = vec![0; size as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 1 << 20).expect("reads");
        std::io::Write::write_all(&mut part, &bytes).expect("writes");
        assert_sound(&scratch.join("part"));
    }
}

#[test]
fn the_partition_holds_the_files_whatever_the_file_system() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/file", b"content");
    for fs in ["xfs", "btrfs", "f2fs", "vfat", "squashfs"] {
        let args = ["make-image", "--force", "--owner=root", "--fs", fs];
        let more = ["--partition-table=gpt", "tree", "a.img"];
        succeed(scratch.tane().args(args).args(more));
        partition(&scratch.join("a.img"));
        let read = succeed(scratch.tane().args(["cat", "a.img@1:/file"]));
        assert_eq!(read.stdout, b"content", "{fs}");
        let json = succeed(scratch.tane().args(["--json", "inspect", "a.img"])).stdout;
        assert!(text(&json).contains("gpt"), "{}", text(&json));
    }
}

#[test]
fn size_is_that_of_the_disk_and_the_label_names_the_partition() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/file", b"content");
    let args = ["make-image", "--partition-table=gpt", "--size=64M"];
    let more = ["--label=data", "tree", "a.img"];
    succeed(scratch.tane().args(args).args(more));
    let image = scratch.join("a.img");
    assert_eq!(image.metadata().expect("an image").len(), 64 << 20);
    let one = partition(&image);
    assert_eq!(one["name"], "data");
    assert_eq!(one["size"], (62 << 20) / 512);
}

#[test]
fn tables_count_in_sectors_of_the_size_that_is_given() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/file", b"content");
    let args = ["make-image", "--sector-size=4096", "--partition-table=gpt"];
    succeed(scratch.tane().args(args).args(["tree", "a.img"]));
    let args = ["--sector-size=4096", "cat", "a.img@1:/file"];
    assert_eq!(succeed(scratch.tane().args(args)).stdout, b"content");
}

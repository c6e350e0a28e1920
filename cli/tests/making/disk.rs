//! Promises of `tane make-image` of a TOML file. Judges are sfdisk, fsck, blkid, mtools.

use crate::common::make::*;
use crate::common::*;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const LAYOUT: &str = "
size = '220M'

[[partition]]
type = 'esp'
fs = 'vfat'
label = 'EFI'
size = '40M'
source = 'boot'

[[partition]]
type = 'root'
fs = 'ext4'
label = 'root'
source = 'one'
owner = 'root'
grow = true

[[partition]]
fs = 'swap'
label = 'swap'
size = '8M'

[[partition]]
type = '21686148-6449-6E6F-744E-656564454649'
label = 'raw'
copy-blocks = 'blocks'
";

/// The partitions, as sfdisk has them.
fn partitions(image: &Path) -> Vec<serde_json::Value> {
    let told = text(&succeed(sbin("sfdisk").arg("-V").arg(image)).stdout);
    assert!(told.contains("No errors detected"), "{told}");
    let json = succeed(sbin("sfdisk").arg("--json").arg(image)).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let all = json["partitiontable"]["partitions"].as_array();
    all.expect("partitions").clone()
}

/// What lies on a partition, as a file.
fn cut(scratch: &Scratch, image: &Path, partition: &serde_json::Value, name: &str) -> PathBuf {
    let bytes = |field: &str| partition[field].as_u64().expect("a number") * 512;
    let mut data = vec![0; bytes("size") as usize];
    let file = std::fs::File::open(image).expect("the image");
    file.read_exact_at(&mut data, bytes("start"))
        .expect("reads");
    scratch.write(name, &data)
}

fn blkid(file: &Path, field: &str) -> String {
    let output = succeed(
        sbin("blkid")
            .args(["-p", "-o", "value", "-s", field])
            .arg(file),
    );
    text(&output.stdout).trim().to_owned()
}

fn sources(scratch: &Scratch) {
    tree(scratch, "one", false);
    scratch.write("boot/EFI/BOOT/BOOTX64.EFI", b"not really");
    scratch.write("blocks", &[7; 5000]);
    scratch.write("disk.toml", LAYOUT.as_bytes());
}

#[test]
fn a_disk_has_the_partitions_of_its_toml_file() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    sources(&scratch);
    let args = ["--json", "make-image", "disk.toml", "a.img"];
    let told = succeed(scratch.tane().args(args)).stdout;
    let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
    let image = scratch.join("a.img");
    assert_eq!(image.metadata().expect("an image").len(), 220 << 20);
    let found = partitions(&image);
    let types: Vec<_> = found
        .iter()
        .map(|p| p["type"].as_str().expect("a type"))
        .collect();
    assert_eq!(
        types,
        [
            "C12A7328-F81F-11D2-BA4B-00A0C93EC93B",
            "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
            "0657FD6D-A4AB-43C4-84E5-0933C84B4F4F",
            "21686148-6449-6E6F-744E-656564454649",
        ]
    );
    let sectors = |n: usize| found[n]["size"].as_u64().expect("a size");
    assert_eq!(
        [0, 1, 2, 3].map(sectors),
        [40, 220 - 2 - 40 - 8 - 1, 8, 1].map(|mib| mib * 2048)
    );
    for (n, one) in found.iter().enumerate() {
        let start = one["start"].as_u64().expect("a start") * 512;
        assert_eq!(told["partitions"][n]["start"], start, "{told}");
    }

    let esp = cut(&scratch, &image, &found[0], "esp");
    succeed(sbin("fsck.vfat").arg("-n").arg(&esp));
    let read = succeed(
        Command::new("mtype")
            .arg("-i")
            .arg(&esp)
            .arg("::EFI/BOOT/BOOTX64.EFI"),
    );
    assert_eq!(read.stdout, b"not really");
    let root = cut(&scratch, &image, &found[1], "root");
    assert_sound(&root);
    assert_eq!(blkid(&root, "LABEL"), "root");
    assert_eq!(blkid(&root, "UUID"), told["partitions"][1]["uuid"]);
    let swap = cut(&scratch, &image, &found[2], "swap");
    assert_eq!(
        [blkid(&swap, "TYPE"), blkid(&swap, "LABEL")],
        ["swap", "swap"]
    );
    let raw = cut(&scratch, &image, &found[3], "raw");
    let raw = std::fs::read(raw).expect("reads");
    assert!(raw[..5000].iter().all(|&b| b == 7) && raw[5000..].iter().all(|&b| b == 0));

    let cat = ["cat", "a.img@2:/dir1/file8"];
    assert_eq!(succeed(scratch.tane().args(cat)).stdout, vec![8; 37 * 8]);
}

#[test]
fn equal_disks_have_equal_bytes_and_partitions_of_equal_content_other_uuids() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/file", b"content");
    let layout = "table = 'mbr'\n".to_owned()
        + &"[[partition]]\nfs = 'ext4'\nowner = 'root'\nsource = 'tree'\n".repeat(2);
    scratch.write("disk.toml", layout.as_bytes());
    let mut all = Vec::new();
    for name in ["a.img", "b.img"] {
        let args = [
            "--json",
            "make-image",
            "--epoch=1700000000",
            "disk.toml",
            name,
        ];
        let told = succeed(scratch.tane().args(args)).stdout;
        all.push(serde_json::from_slice::<serde_json::Value>(&told).expect("JSON"));
    }
    assert_equal(&scratch.join("a.img"), &scratch.join("b.img"));
    let [first, second] = [0, 1].map(|n| all[0]["partitions"][n]["uuid"].clone());
    assert!(first.is_string() && first != second, "{first} {second}");
    for (n, one) in partitions(&scratch.join("a.img")).iter().enumerate() {
        assert_eq!(one["type"], "83");
        assert_sound(&cut(&scratch, &scratch.join("a.img"), one, &format!("{n}")));
    }
}

#[test]
fn a_read_only_system_has_a_partition_of_its_size() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    scratch.write("tree/file", b"content");
    let layout = "[[partition]]\nfs = 'squashfs'\nsource = 'tree'\nlabel = 'usr'\n\
                  type = 'usr'\n[[partition]]\nfs = 'ext4'\nsize = '16M'\n";
    scratch.write("disk.toml", layout.as_bytes());
    succeed(scratch.tane().args(["make-image", "disk.toml", "a.img"]));
    let found = partitions(&scratch.join("a.img"));
    assert_eq!(found[0]["size"], 2048, "{found:?}");
    let cat = ["cat", "a.img@1:/file"];
    assert_eq!(succeed(scratch.tane().args(cat)).stdout, b"content");
    succeed(scratch.tane().args(["ls", "a.img@2:/"]));
}

#[test]
fn a_disk_that_cannot_be_is_an_error_and_leaves_nothing() {
    let scratch = Scratch::new();
    scratch.write("tree/file", &[1; 100_000]);
    for (layout, why) in [
        (
            "size = '4M'\n[[partition]]\nsize = '8M'\n",
            "the disk has 4194304",
        ),
        (
            "[[partition]]\nfs = 'ext5'\nsize = '8M'\n",
            "ext5 is not supported",
        ),
        ("[[partition]]\nfs = 'ext4'\nsource = 'none'\n", "none"),
        ("[[partition]]\nsize = 0\n", "nothing would be in it"),
        (
            "[[partition]]\nsize = '1M'\nuuid = 'x'",
            "there is none: leave it out",
        ),
        (
            "[[partition]]\ncopy-blocks = 'tree/file'\nsize = 4096\ntype = 'x'",
            "called \"x\"",
        ),
        ("[[partition]\n", "disk.toml"),
    ] {
        scratch.write("disk.toml", layout.as_bytes());
        let output = scratch
            .tane()
            .args(["make-image", "disk.toml", "a.img"])
            .output();
        let output = output.expect("runs");
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(why),
            "{layout}: {said}"
        );
        let left: Vec<_> = std::fs::read_dir(scratch.path())
            .expect("a directory")
            .collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }
    // What has no size but by an option grows too.
    scratch.write("disk.toml", b"[[partition]]\ngrow = true\n");
    let args = ["--json", "make-image", "--size=9M", "disk.toml", "a.img"];
    let told = text(&succeed(scratch.tane().args(args)).stdout);
    assert!(told.contains("\"size\":7340032"), "{told}");
    scratch.write("disk.toml", b"[[partition]]\nsize = '1M'\n");
    let args = ["make-image", "--fs", "xfs", "disk.toml", "a.img"];
    let output = scratch.tane().args(args).output().expect("runs");
    assert!(text(&output.stderr).contains("--fs is said of each partition"));
}

#[test]
fn several_partitions_are_made_of_archives_that_are_unpacked() {
    if !has_kernel() {
        return;
    }
    let scratch = Scratch::new();
    let mut layout = String::new();
    for name in ["one", "two", "three"] {
        scratch.write(&format!("{name}/file"), name.as_bytes());
        let words = format!("-czf {name}.tar.gz -C {name} .");
        succeed(scratch.command("tar", &words).current_dir(scratch.path()));
        layout += &format!("[[partition]]\nfs = 'ext4'\nsource = '{name}.tar.gz'\n");
    }
    scratch.write("disk.toml", layout.as_bytes());
    succeed(scratch.tane().args(["make-image", "disk.toml", "disk.img"]));
    for (number, name) in ["one", "two", "three"].into_iter().enumerate() {
        let file = format!("disk.img@{}:/file", number + 1);
        let read = succeed(scratch.tane().args(["cat", &file])).stdout;
        assert_eq!(text(&read), name);
    }
}

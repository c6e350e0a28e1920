//! Sets of RAID controllers (DDF), which mdadm made on another Linux: they are read here,
//! also short of disks. tests/ddf/README.md tells how the disks were recorded.

use crate::common::uml::Uml;
use crate::common::volumes::{blank, get, put};
use crate::common::*;
use std::path::Path;
use std::process::Command;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/ddf");
const DISKS: [&str; 4] = ["a", "b", "c", "d"];
const VOLUMES: [&str; 6] = ["five", "nought", "copies", "ten", "six", "left"];
const SECTOR: u64 = 512;

/// The file that is on each volume: no two of its blocks are alike, and each packs well.
fn one() -> Vec<u8> {
    let block = |i: u16| i.wrapping_mul(40503).wrapping_add(1).to_le_bytes();
    (0..732).flat_map(|i| block(i).repeat(2048)).collect()
}

fn unpack(s: &Scratch, to: &str) {
    std::fs::create_dir_all(s.join(to)).expect("a directory");
    let mut tar = Command::new("tar");
    tar.arg("-xJf").arg(Path::new(KEPT).join("disks.tar.xz"));
    succeed(tar.arg("-C").arg(s.join(to)));
}

fn tane(s: &Scratch, with: &[&str]) -> Command {
    let mut tane = s.tane();
    tane.args(with.iter().map(|disk| format!("--with={disk}")));
    tane
}

#[track_caller]
fn assert_read(s: &Scratch, with: &[&str], first: &str, label: &str) {
    let at = format!("{first}@label={label}:/one");
    let read = succeed(tane(s, with).args(["cat", &at])).stdout;
    assert!(read == one(), "{label} of {first} and {with:?}");
}

fn assert_all_is_read(s: &Scratch) {
    for volume in VOLUMES {
        assert_read(s, &["b", "c", "d"], "a", volume);
    }
    // Without any one disk: whoever has no part of a volume is not missed.
    let threes = [
        ["b", "c", "d"],
        ["a", "c", "d"],
        ["a", "b", "d"],
        ["a", "b", "c"],
    ];
    for [first, with @ ..] in threes {
        for volume in VOLUMES.iter().filter(|volume| **volume != "nought") {
            assert_read(s, &with, first, volume);
        }
    }
    // RAID 6 of every two.
    for (first, with) in [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d")] {
        assert_read(s, &[with], first, "six");
    }
    assert_read(s, &["c"], "d", "six");
}

/// A disk that a controller had once, and that was partitioned since.
#[test]
fn a_mark_that_was_left_behind_hides_no_partitions() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    unpack(&s, "kept");
    s.write("tree/f", b"content");
    s.ext4("inner.ext4", Some(&s.join("tree")), 16);
    let disk = blank(&s, "disk", 32);
    let table = s.write("table", b"label: dos\nstart=2048, size=32768, type=83\n");
    let mut sfdisk = sbin("sfdisk");
    sfdisk.arg("-q").arg(&disk);
    sfdisk.stdin(std::fs::File::open(table).expect("the table"));
    succeed(&mut sfdisk);
    put(&disk, 2048 * SECTOR, &s.read("inner.ext4"));
    let kept = s.read("kept/a");
    put(
        &disk,
        (32 << 20) - SECTOR,
        &kept[kept.len() - SECTOR as usize..],
    );
    let read = succeed(s.tane().args(["cat", "disk@1:/f"])).stdout;
    assert_eq!(read, b"content");
}

#[test]
fn volumes_of_every_level_are_read_also_short_of_disks() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    unpack(&s, ".");
    assert_all_is_read(&s);
}

#[test]
fn what_a_group_lacks_is_told_and_nothing_is_written() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    unpack(&s, ".");
    unpack(&s, "before");
    let short = succeed(tane(&s, &["b"]).args(["inspect", "--json", "d"]));
    let found: serde_json::Value = serde_json::from_slice(&short.stdout).expect("JSON");
    schema::assert_inspected(&found);
    let volumes = found["volumes"].as_array().expect("volumes");
    let six = volumes.iter().find(|v| v["label"] == "six").expect("six");
    assert_eq!(six["kind"], "raid");
    assert_eq!(six["note"], "works without 2 of its 4 disks");
    let disk = volumes.iter().find(|v| v["id"] == 0).expect("the disk");
    assert_eq!(disk["fs"], "ddf_raid_member");
    let note = disk["note"].as_str().expect("a note");
    assert!(note.contains("--with"), "{note}");
    s.write("two", b"2");
    let said = exit(
        tane(&s, &["b", "c", "d"]).args(["cp", "two", "a@label=five:/two"]),
        3,
    );
    assert!(text(&said.stderr).contains("only read"), "{said:?}");
    for disk in DISKS {
        let mut cmp = Command::new("cmp");
        succeed(cmp.arg(s.join(disk)).arg(s.join("before").join(disk)));
    }
}

#[test]
fn a_damaged_header_has_a_copy_and_without_both_the_disk_is_not_believed() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    unpack(&s, ".");
    let disk = s.join("a");
    let size = disk.metadata().expect("its size").len();
    // Section 4.2.1: the last sector says where the two are.
    let anchor = get(&disk, size - SECTOR, SECTOR as usize);
    for (place, is_read) in [(96, true), (104, false)] {
        let sector = u64::from_be_bytes(anchor[place..place + 8].try_into().expect("eight"));
        let mut header = get(&disk, sector * SECTOR, SECTOR as usize);
        header[300] ^= 1;
        put(&disk, sector * SECTOR, &header);
        let cat = ["cat", "a@label=nought:/one"];
        if is_read {
            assert_read(&s, &["c"], "a", "nought");
            continue;
        }
        exit(tane(&s, &["c"]).args(cat), 3);
        let told = succeed(tane(&s, &["c"]).args(["inspect", "a"])).stdout;
        let told = text(&told);
        assert!(told.contains("its DDF metadata is damaged"), "{told}");
    }
}

#[test]
#[ignore = "mdmon(8) sometimes does not start on the other Linux; it records the disks anew"]
fn volumes_that_mdadm_makes_now_are_read_likewise() {
    let (Some(uml), Some(_)) = (Uml::find(), tane_test_support::tool("mdadm", "mdadm")) else {
        return;
    };
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let disks = DISKS.map(|name| blank(&s, name, 128));
    s.write("one", &one());
    let make = std::fs::read_to_string(Path::new(KEPT).join("make.sh")).expect("the script");
    let nodes = DISKS.map(|name| format!("/dev/ubd{name}")).join(" ");
    uml.run(&s, &disks, &format!("disks='{nodes}'\n{make}"));
    assert_all_is_read(&s);
    if std::env::var_os("TANE_RECORD").is_some() {
        let mut tar = Command::new("tar");
        tar.args(["-S", "--hole-detection=raw", "--format=gnu", "--mtime=@0"]);
        tar.args(["--owner=0", "--group=0", "--numeric-owner", "-I", "xz -9e"]);
        tar.arg("-cf").arg(Path::new(KEPT).join("disks.tar.xz"));
        succeed(tar.arg("-C").arg(s.join(".")).args(DISKS));
    }
}

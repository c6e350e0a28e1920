//! Promises of the verbs about room: `du`, `tree`, `truncate`, `trim`. The host's
//! own tools on the same trees, the host's st_blocks and e2fsck are the judges.

use crate::common::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{symlink, MetadataExt};
use std::path::Path;
use std::process::Command;
use tane_test_support::skip;

fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = text(bytes);
    let parse = |l: &str| serde_json::from_str(l).expect(l);
    text.lines().map(parse).collect()
}

fn sorted(bytes: &[u8]) -> Vec<String> {
    let text = text(bytes);
    let mut lines: Vec<_> = text.lines().map(String::from).collect();
    lines.sort();
    lines
}

/// A tree with all that counts: hard links, a hole, a symlink, names with spaces.
fn tree(s: &Scratch) -> Vec<u8> {
    let data: Vec<u8> = (0..300_000u32).map(|i| (i >> 4) as u8).collect();
    s.write("i/a/big", &data);
    s.write("i/a/b c/small", b"x");
    s.write("i/a/.hidden", b"xy");
    s.write("i/empty", b"");
    std::fs::hard_link(s.join("i/a/big"), s.join("i/a/zzz")).expect("link");
    symlink("a/big", s.join("i/soft")).expect("symlink");
    let hole = std::fs::File::create(s.join("i/hole")).expect("a file");
    hole.set_len(50 << 20).expect("a hole");
    data
}

#[test]
fn du_counts_as_du_does() {
    let s = Scratch::new();
    tree(&s);
    // Which of a file's names counts is a matter of order.
    let names = |lines: Vec<String>| -> Vec<_> {
        let same = |l: &String| !l.ends_with("/big") && !l.ends_with("/zzz");
        lines.into_iter().filter(same).collect()
    };
    let du = |args: &[&str]| {
        let mut du = Command::new("du");
        du.current_dir(s.join("i")).arg("-k").args(args).arg(".");
        // It names files from ".", we from the image's root.
        let text = text(&succeed(&mut du).stdout).replace("\t./", "\t/");
        sorted(text.replace("\t.\n", "\t/\n").as_bytes())
    };
    let ours = |args: &[&str]| sorted(&succeed(s.host().arg("du").args(args).arg("i")).stdout);
    // The file system may yet put off what it allocates.
    succeed(&mut Command::new("sync"));
    for args in [&[][..], &["-a"], &["-s"], &["-d", "1"], &["-c"]] {
        assert_eq!(names(ours(args)), names(du(args)), "{args:?}");
    }
}

#[test]
fn du_counts_files_of_two_arguments_once() {
    let s = Scratch::new();
    tree(&s);
    let json = |paths: &[&str]| {
        let mut command = s.host();
        command.args(["du", "-s", "--json"]).args(paths);
        lines(&succeed(&mut command).stdout)
    };
    std::fs::rename(s.join("i/a/zzz"), s.join("i/again")).expect("rename");
    let both = json(&["i:/a", "i:/again"]);
    assert_eq!(both.len(), 1, "the second is a name of what is counted");
    let again = json(&["i:/again"]);
    assert_eq!(again[0]["size"], 300_000);
    assert_eq!(json(&["i:/a", "i:/a/b c"]).len(), 1);
}

#[test]
fn du_sees_the_lengths_that_were_put_into_an_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    s.ext4("disk.img", Some(&s.join("i")), 64);
    let found = lines(&succeed(s.tane().args(["du", "--json", "-d0", "disk.img:/a"])).stdout);
    // big, small, .hidden; a and "b c".
    assert_eq!(found[0]["size"], 300_003);
    assert_eq!(found[0]["inodes"], 5);
    let blocks = |path: &str| {
        let stat = format!("stat {path}");
        let said = succeed(sbin("debugfs").args(["-R", &stat]).arg(s.join("disk.img")));
        let said = text(&said.stdout);
        let at = said.find("Blockcount: ").expect("a count") + 12;
        let count = said[at..].split_whitespace().next().expect("a number");
        count.parse::<u64>().expect("a number") * 512
    };
    let files = [
        "/a",
        "/a/big",
        "/a/.hidden",
        "\"/a/b c\"",
        "\"/a/b c/small\"",
    ];
    let wanted: u64 = files.iter().map(|path| blocks(path)).sum();
    assert_eq!(found[0]["allocated"], wanted);
}

#[test]
fn du_names_what_it_cannot_find_and_goes_on() {
    let s = Scratch::new();
    s.write("i/f", b"");
    let output = exit(s.host().args(["du", "i:/none", "i:/f"]), 1);
    assert!(text(&output.stderr).contains("i:/none: no such file"));
    assert_eq!(text(&output.stdout), "0\t/f\n");
}

#[test]
fn tree_draws_what_tree_draws() {
    if !Path::new("/usr/bin/tree").exists() {
        return skip("tree is not installed");
    }
    let s = Scratch::new();
    tree(&s);
    for args in [&["-a"][..], &[], &["-d"], &["-L", "1"]] {
        let mut theirs = Command::new("tree");
        theirs.env("LC_ALL", "C.UTF-8").current_dir(s.join("i"));
        let wanted = text(&succeed(theirs.args(args)).stdout).replace('\u{a0}', " ");
        let wanted: Vec<_> = wanted.lines().skip(1).map(str::to_owned).collect();
        let ours = text(&succeed(s.host().arg("tree").args(args).arg("i")).stdout);
        let ours: Vec<_> = ours.lines().skip(1).map(str::to_owned).collect();
        let (last, rows) = ours.split_last().expect("lines");
        assert_eq!(rows, &wanted[..wanted.len() - 1], "{args:?}");
        // Versions differ in whether the root counts.
        assert!(last.contains("director"), "{last}");
    }
}

#[test]
fn tree_gives_odd_names_whole_in_json() {
    let s = Scratch::new();
    std::fs::create_dir_all(s.join("i/d")).expect("mkdir");
    let name = OsStr::from_bytes(b"a\n\xff");
    std::fs::write(s.join("i/d").join(name), b"").expect("a file");
    let found = lines(&succeed(s.host().args(["tree", "--json", "i"])).stdout);
    assert_eq!(found.len(), 3);
    assert_eq!(found[2]["path_bytes"], "2f642f610aff");
    assert_eq!(found[2]["depth"], 2);
}

#[test]
fn truncate_sets_lengths_and_makes_holes() {
    let s = Scratch::new();
    s.write("i/f", b"0123456789");
    let truncate = |size: &str, path: &str| {
        succeed(s.host().args(["truncate", "-s", size, path]));
    };
    truncate("4", "i:/f");
    assert_eq!(s.read("i/f"), b"0123");
    truncate("+2", "i:/f");
    assert_eq!(s.read("i/f"), b"0123\0\0");
    truncate("<3", "i:/f");
    assert_eq!(s.read("i/f"), b"012");
    truncate("1G", "i:/new");
    let m = s.join("i/new").metadata().expect("a file");
    assert_eq!((m.len(), m.blocks()), (1 << 30, 0));
    succeed(s.host().args(["truncate", "-c", "-s", "1", "i:/none"]));
    assert!(!s.join("i/none").exists());
    let said = exit(s.host().args(["truncate", "-s", "0", "i:/", "i:/f"]), 1);
    assert!(text(&said.stderr).contains("i:/: is a directory"));
    assert_eq!(s.read("i/f"), b"");
    exit(s.host().args(["truncate", "-s", "x", "i:/f"]), 2);
}

#[test]
fn truncate_leaves_a_sound_image() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    tree(&s);
    let image = s.ext4("disk.img", Some(&s.join("i")), 64);
    succeed(
        s.tane()
            .args(["truncate", "-s", "1000", "disk.img:/soft", "disk.img:/n"]),
    );
    assert_sound(&image);
    let stat = succeed(
        s.tane()
            .args(["stat", "--json", "disk.img:/a/zzz", "disk.img:/n"]),
    );
    let stat = lines(&stat.stdout);
    assert_eq!(
        (&stat[0]["size"], &stat[1]["size"]),
        (&1000.into(), &1000.into())
    );
}

/// Bytes that a file takes on the host's disk.
fn taken(path: &Path) -> u64 {
    let file = std::fs::File::open(path).expect("the image");
    file.sync_all().expect("fsync");
    file.metadata().expect("the image").blocks() * 512
}

fn noise(len: usize) -> Vec<u8> {
    let mut x = 0x2545_f491u32;
    let next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn trim_gives_the_room_of_deleted_files_back_to_the_host() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    let image = s.ext4("disk.img", None, 128);
    s.write("big", &noise(40 << 20));
    s.write("small", &noise(1 << 20));
    succeed(s.tane().args(["cp", "big", "small", "disk.img:/"]));
    succeed(s.tane().args(["rm", "disk.img:/big"]));
    let before = taken(&image);
    let said = succeed(s.tane().args(["trim", "--json", "disk.img"]));
    let said = &lines(&said.stdout)[0];
    let after = taken(&image);
    assert!(before - after >= 40 << 20, "{before} {after} {said}");
    // Mounting it writes a little as well.
    let near = |key: &str, n: u64| said[key].as_u64().expect(key).abs_diff(n) < 1 << 20;
    assert!(
        near("given_back", before - after),
        "{before} {after} {said}"
    );
    assert!(near("allocated", after), "{after} {said}");
    assert!(said["discarded"].as_u64() >= Some(40 << 20), "{said}");
    assert_sound(&image);
    let small = succeed(s.tane().args(["cat", "disk.img:/small"])).stdout;
    assert!(small == s.read("small"));
}

#[test]
fn trim_gives_clusters_of_qcow2_back() {
    if !has_kernel() {
        return;
    }
    let s = Scratch::new();
    s.ext4("raw.img", None, 128);
    succeed(&mut s.command("qemu-img", "convert -f raw -O qcow2 raw.img disk.qcow2"));
    s.write("big", &noise(40 << 20));
    succeed(s.tane().args(["cp", "big", "disk.qcow2:/"]));
    succeed(s.tane().args(["rm", "disk.qcow2:/big"]));
    let image = s.join("disk.qcow2");
    let before = taken(&image);
    succeed(s.tane().args(["trim", "disk.qcow2"]));
    let after = taken(&image);
    assert!(before - after >= 36 << 20, "{before} {after}");
    succeed(&mut s.command("qemu-img", "check disk.qcow2"));
    succeed(&mut s.command("qemu-img", "convert -f qcow2 -O raw disk.qcow2 back.img"));
    assert_sound(&s.join("back.img"));
}

#[test]
fn trim_of_what_is_no_image_says_so() {
    let s = Scratch::new();
    exit(s.tane().args(["trim", "none.img"]), 3);
    std::fs::create_dir(s.join("i")).expect("mkdir");
    exit(s.host().args(["trim", "i"]), 2);
}

#[test]
fn json_of_du_has_what_is_promised() {
    let s = Scratch::new();
    s.write("i/f", b"123");
    let found = lines(&succeed(s.host().args(["du", "-a", "--json", "i"])).stdout);
    let file: BTreeMap<String, Value> = serde_json::from_value(found[0].clone()).expect("a map");
    let keys: Vec<_> = file.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["allocated", "image", "inodes", "path", "size", "type"]
    );
    assert_eq!((&file["path"], &file["size"]), (&"/f".into(), &3.into()));
}
